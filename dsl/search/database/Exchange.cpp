// Entries with their trials as one document, from one database into another.
#include "dsl/search/database/DatabaseState.h"

#include <algorithm>

namespace kiln::search {

nlohmann::json Database::export_json(const std::vector<int64_t> &only) const {
    nlohmann::json list = nlohmann::json::array();
    for (const Entry &e : entries()) {
        if (!only.empty() && std::find(only.begin(), only.end(), e.id) == only.end()) {
            continue;
        }
        nlohmann::json trials_json = nlohmann::json::array();
        for (const StoredTrial &t : trials(e.id)) {
            trials_json.push_back({{"job", to_json(t.job)},
                                   {"outcome", to_json(t.outcome)},
                                   {"score_ms", t.score_ms},
                                   {"cool_score_ms", t.cool_score_ms},
                                   {"predicted_ms", t.predicted_ms},
                                   {"predicted_sigma", t.predicted_sigma},
                                   {"loose_key", t.loose_key},
                                   {"date", t.date},
                                   {"at_s", t.at_s}});
        }
        list.push_back({{"work", e.work},
                        {"firm", e.facts.firm},
                        {"loose", e.facts.loose},
                        {"created", e.created},
                        {"changed", e.changed},
                        {"trials", trials_json}});
    }
    return {{"kiln_tuning_database", database_version}, {"entries", list}};
}

int64_t Database::import_json(const nlohmann::json &document) {
    auto no_export = [](const std::string &why) {
        Diagnostic d;
        d.code = "K1313";
        d.message = "the document is no export of a tuning database";
        d.notes = {why};
        d.helps = {"`kiln db export` writes one"};
        return Error(std::move(d));
    };
    if (!document.is_object()) { // also where it could not be parsed
        throw no_export("it does not hold one JSON object: another file, or one that was cut short");
    }
    int64_t added = 0;
    try {
        if (document.at("kiln_tuning_database").get<int64_t>() > database_version) {
            database_fault("K1313", "the document was written by a later Kiln", "update Kiln");
        }
        Transaction t(state_->db);
        for (const nlohmann::json &one : document.at("entries")) {
            Facts facts;
            facts.firm = one.at("firm").get<std::map<std::string, std::string>>();
            facts.loose = one.at("loose").get<std::map<std::string, std::string>>();
            Query q(state_->db, "INSERT INTO entries (key, work, firm, loose, created, changed) "
                                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING");
            q.bind(facts.key())
                .bind(one.at("work").get<std::string>())
                .bind(one_line(facts.firm))
                .bind(one_line(facts.loose))
                .bind(one.at("created").get<std::string>())
                .bind(one.at("changed").get<std::string>())
                .step();
            int64_t entry = find(facts)->id;
            for (const nlohmann::json &json : one.at("trials")) {
                StoredTrial trial;
                trial.entry = entry;
                trial.job = job_from_json(json.at("job"));
                trial.outcome = outcome_from_json(json.at("outcome"));
                trial.score_ms = json.at("score_ms");
                trial.cool_score_ms = json.at("cool_score_ms");
                trial.predicted_ms = json.at("predicted_ms");
                trial.predicted_sigma = json.at("predicted_sigma");
                trial.loose_key = json.at("loose_key");
                trial.date = json.at("date");
                trial.at_s = json.at("at_s");
                added += state_->insert(trial, "INSERT OR IGNORE") > 0;
            }
        }
        t.commit();
    } catch (const nlohmann::json::exception &e) {
        throw no_export(e.what());
    }
    return added;
}

} // namespace kiln::search
