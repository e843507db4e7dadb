#include "dsl/search/database/DatabaseState.h"

#include <fmt/format.h>

namespace kiln::search {

namespace {

Entry entry_of(Sqlite &db, const Query &q) {
    Entry e;
    e.id = q.integer(0);
    e.key = q.text(1);
    e.work = q.text(2);
    e.facts.firm = nlohmann::json::parse(q.text(3)).get<std::map<std::string, std::string>>();
    e.facts.loose = nlohmann::json::parse(q.text(4)).get<std::map<std::string, std::string>>();
    e.created = q.text(5);
    e.changed = q.text(6);
    Query counts(db, "SELECT count(*), sum(status = 'ok'), min(CASE WHEN status = 'ok' THEN score END), "
                     "min(CASE WHEN status = 'ok' AND cool_score > 0 THEN cool_score END) FROM trials "
                     "WHERE entry = ?");
    counts.bind(e.id).step();
    e.trials = counts.integer(0);
    e.ok = counts.integer(1);
    e.best_ms = counts.real(2);
    e.best_cool_ms = counts.real(3);
    return e;
}

} // namespace

std::vector<Entry> Database::State::entries(const std::string &where, const std::string &value) {
    std::string sql = "SELECT id, key, work, firm, loose, created, changed FROM entries " + where;
    Query q(db, sql.c_str());
    if (!value.empty()) {
        q.bind(value);
    }
    std::vector<Entry> all;
    while (q.step()) {
        all.push_back(entry_of(db, q));
    }
    return all;
}

int64_t Database::State::insert(const StoredTrial &t, const char *verb) {
    std::string sql = fmt::format("{} INTO trials (entry, run, status, score, cool_score, predicted, "
                                  "sigma, loose_key, date, at, job, outcome) "
                                  "VALUES (?, nullif(?, 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                  verb);
    Query q(db, sql.c_str());
    q.bind(t.entry)
        .bind(t.run)
        .bind(std::string(status_name(t.outcome.status)))
        .bind(t.score_ms)
        .bind(t.cool_score_ms)
        .bind(t.predicted_ms)
        .bind(t.predicted_sigma)
        .bind(t.loose_key)
        .bind(t.date)
        .bind(t.at_s)
        .bind(one_line(to_json(t.job)))
        .bind(one_line(to_json(t.outcome)));
    q.step();
    return db.changes() > 0 ? db.last_id() : 0;
}

StoredTrial trial_of(const Query &q) {
    StoredTrial t;
    t.id = q.integer(0);
    t.entry = q.integer(1);
    t.run = q.integer(2);
    t.score_ms = q.real(3);
    t.cool_score_ms = q.real(4);
    t.predicted_ms = q.real(5);
    t.predicted_sigma = q.real(6);
    t.loose_key = q.text(7);
    t.date = q.text(8);
    t.at_s = q.real(9);
    t.job = job_from_json(nlohmann::json::parse(q.text(10)));
    t.outcome = outcome_from_json(nlohmann::json::parse(q.text(11)));
    return t;
}

[[noreturn]] void database_fault(const char *code, std::string message, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps = {std::move(help)};
    throw Error(std::move(d));
}

std::string one_line(const nlohmann::json &json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace kiln::search
