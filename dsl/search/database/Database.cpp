#include "dsl/search/database/DatabaseState.h"

#include "dsl/target/CalibrateCpu.h"
#include "dsl/target/Device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <set>

namespace kiln::search {

namespace {

namespace fs = std::filesystem;

// `application_id` tells the file apart from any other program's: "Kiln".
constexpr int64_t application = 0x4b696c6e;

constexpr const char *schema = R"(
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, work TEXT NOT NULL, firm TEXT NOT NULL, loose TEXT NOT NULL,
  created TEXT NOT NULL, changed TEXT NOT NULL);
CREATE TABLE runs (
  id INTEGER PRIMARY KEY, entry INTEGER NOT NULL REFERENCES entries(id) ON DELETE CASCADE, started TEXT NOT NULL,
  state TEXT NOT NULL, space TEXT NOT NULL, budget REAL NOT NULL, trial_limit INTEGER NOT NULL, seed INTEGER NOT NULL);
CREATE TABLE trials (
  id INTEGER PRIMARY KEY, entry INTEGER NOT NULL REFERENCES entries(id) ON DELETE CASCADE,
  run INTEGER REFERENCES runs(id) ON DELETE SET NULL, status TEXT NOT NULL, score REAL NOT NULL, cool_score REAL NOT NULL,
  predicted REAL NOT NULL, sigma REAL NOT NULL, loose_key TEXT NOT NULL, date TEXT NOT NULL, at REAL NOT NULL,
  job TEXT NOT NULL, outcome TEXT NOT NULL, UNIQUE (entry, job, date, at));
CREATE INDEX trials_by_entry ON trials(entry, status, score);
)";

} // namespace

Database::Database(const fs::path &path) {
    state_ = std::make_unique<State>(path);
    Sqlite &db = state_->db;
    int64_t found = 0, id = 0, tables = 0;
    try {
        Query user(db, "PRAGMA user_version"), app(db, "PRAGMA application_id"),
            count(db, "SELECT count(*) FROM sqlite_master");
        user.step();
        app.step();
        count.step();
        found = user.integer(0);
        id = app.integer(0);
        tables = count.integer(0);
    } catch (const Error &) {
        if (fs::is_regular_file(path) && fs::file_size(path) > 0) {
            database_fault("K1311", fmt::format("`{}` is no database of Kiln's", path.string()),
                           "name another file by `--database` or KILN_DATABASE");
        }
        throw;
    }
    if (tables > 0 && id != application) {
        database_fault("K1311", fmt::format("`{}` is no database of Kiln's", path.string()),
                       "name another file by `--database` or KILN_DATABASE");
    }
    if (found > database_version) {
        database_fault(
            "K1311",
            fmt::format("`{}` was written by a later Kiln: its form is {}, this one reads up to {}",
                        path.string(), found, database_version),
            "update Kiln, or name another file by `--database`");
    }
    // Readers and a writer at once, and a killed writer's last whole transaction stays.
    db.run("PRAGMA journal_mode = WAL");
    db.run("PRAGMA synchronous = NORMAL");
    db.run("PRAGMA foreign_keys = ON");
    if (tables == 0) {
        Transaction t(db);
        Query again(db, "SELECT count(*) FROM sqlite_master"); // another program may have been first
        again.step();
        if (again.integer(0) == 0) {
            db.run(schema);
            db.run(fmt::format("PRAGMA application_id = {}", application).c_str());
            db.run(fmt::format("PRAGMA user_version = {}", database_version).c_str());
        }
        t.commit();
    }
}

Database::~Database() = default;

fs::path Database::standard_path() {
    const char *named = std::getenv("KILN_DATABASE");
    return named && *named ? fs::path(named) : cache_dir() / "tune.db";
}

const fs::path &Database::path() const {
    return state_->db.path();
}

Entry Database::entry_for(const Facts &facts, const std::string &work) {
    Transaction t(state_->db);
    Query q(state_->db,
            "INSERT INTO entries (key, work, firm, loose, created, changed) VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (key) DO UPDATE SET loose = excluded.loose");
    std::string now = utc_now();
    q.bind(facts.key())
        .bind(work)
        .bind(one_line(facts.firm))
        .bind(one_line(facts.loose))
        .bind(now)
        .bind(now)
        .step();
    t.commit();
    return *find(facts);
}

std::optional<Entry> Database::find(const Facts &facts) const {
    std::vector<Entry> found = state_->entries("WHERE key = ?", facts.key());
    return found.empty() ? std::nullopt : std::optional(found[0]);
}

Entry Database::entry_by_name(const std::string &name) const {
    std::vector<Entry> found;
    if (!name.empty() && name.size() <= 6 && name.find_first_not_of("0123456789") == std::string::npos) {
        found = state_->entries("WHERE id = CAST(? AS INTEGER)", name);
    }
    if (found.empty() && !name.empty()) {
        found = state_->entries("WHERE substr(key, 1, length(?1)) = ?1", name);
    }
    if (found.size() != 1) {
        Diagnostic d;
        d.code = "K1312";
        d.message = found.empty()
                        ? fmt::format("the database has no entry `{}`", name)
                        : fmt::format("{} entries of the database begin with `{}`", found.size(), name);
        for (const Entry &e : found) {
            d.notes.push_back(fmt::format("{} {}", e.key.substr(0, 16), e.work));
        }
        d.helps = {"`kiln db list` shows all entries"};
        throw Error(std::move(d));
    }
    return found[0];
}

std::vector<Entry> Database::entries() const {
    return state_->entries("ORDER BY work, id", "");
}

Run Database::begin_run(const Run &run) {
    Run made = run;
    made.started = utc_now();
    made.state = "open";
    Query q(state_->db, "INSERT INTO runs (entry, started, state, space, budget, trial_limit, seed) "
                        "VALUES (?, ?, 'open', ?, ?, ?, ?)");
    q.bind(run.entry)
        .bind(made.started)
        .bind(run.space)
        .bind(run.budget_s)
        .bind(run.trial_limit)
        .bind(static_cast<int64_t>(run.seed))
        .step();
    made.id = state_->db.last_id();
    return made;
}

std::optional<Run> Database::open_run(int64_t entry, const std::string &space) const {
    Query q(state_->db,
            "SELECT r.id, r.started, r.budget, r.trial_limit, r.seed, "
            "(SELECT count(*) FROM trials t WHERE t.run = r.id), "
            "(SELECT coalesce(max(at), 0) FROM trials t WHERE t.run = r.id) "
            "FROM runs r WHERE r.entry = ? AND r.space = ? AND r.state = 'open' ORDER BY r.id DESC LIMIT 1");
    if (!q.bind(entry).bind(space).step()) {
        return std::nullopt;
    }
    Run run;
    run.id = q.integer(0);
    run.entry = entry;
    run.started = q.text(1);
    run.state = "open";
    run.space = space;
    run.budget_s = q.real(2);
    run.trial_limit = q.integer(3);
    run.seed = static_cast<uint64_t>(q.integer(4));
    run.trials = q.integer(5);
    run.spent_s = q.real(6);
    return run;
}

void Database::end_run(int64_t run) {
    Query q(state_->db, "UPDATE runs SET state = 'done' WHERE id = ?");
    q.bind(run).step();
}

int64_t Database::add(const StoredTrial &trial) {
    Transaction t(state_->db);
    int64_t id = state_->insert(trial);
    Query q(state_->db, "UPDATE entries SET changed = ? WHERE id = ?");
    q.bind(trial.date).bind(trial.entry).step();
    t.commit();
    return id;
}

std::vector<StoredTrial> Database::trials(int64_t entry) const {
    std::string sql = fmt::format("SELECT {} FROM trials WHERE entry = ? ORDER BY id", trial_columns);
    Query q(state_->db, sql.c_str());
    q.bind(entry);
    std::vector<StoredTrial> all;
    while (q.step()) {
        all.push_back(trial_of(q));
    }
    return all;
}

StoredTrial Database::trial(int64_t id) const {
    std::string sql = fmt::format("SELECT {} FROM trials WHERE id = ?", trial_columns);
    Query q(state_->db, sql.c_str());
    if (!q.bind(id).step()) {
        database_fault("K1312", fmt::format("the database has no trial {}", id),
                       "`kiln db show ENTRY` lists an entry's trials");
    }
    return trial_of(q);
}

std::vector<StoredTrial> Database::best(int64_t entry, size_t most, Regime regime,
                                        const std::string &loose_key) const {
    // The last measurement of each schedule counts: a lucky one must not stay for ever.
    std::map<std::string, StoredTrial> last;
    for (StoredTrial &t : trials(entry)) {
        if (!loose_key.empty() && t.loose_key != loose_key) {
            continue;
        }
        std::string schedule = t.job.schedule + one_line(t.job.knobs);
        if (t.outcome.ok() && t.score(regime) > 0) {
            last[schedule] = std::move(t);
        } else if (t.outcome.status == Status::Wrong || t.outcome.status == Status::Incredible) {
            last.erase(schedule);
        }
    }
    std::vector<StoredTrial> all;
    for (auto &[schedule, t] : last) {
        all.push_back(std::move(t));
    }
    std::sort(all.begin(), all.end(), [&](const StoredTrial &a, const StoredTrial &b) {
        return std::pair(a.score(regime), a.id) < std::pair(b.score(regime), b.id);
    });
    if (all.size() > most) {
        all.resize(most);
    }
    return all;
}

int64_t Database::prune(const std::vector<int64_t> &only, size_t keep) {
    int64_t removed = 0;
    Transaction t(state_->db);
    for (const Entry &e : entries()) {
        if (!only.empty() && std::find(only.begin(), only.end(), e.id) == only.end()) {
            continue;
        }
        std::set<int64_t> kept;
        std::string current = e.facts.loose_key();
        for (Regime regime : {Regime::Sustained, Regime::Cool}) {
            for (const StoredTrial &b : best(e.id, keep, regime)) {
                kept.insert(b.id);
            }
            for (const StoredTrial &b : best(e.id, keep, regime, current)) {
                kept.insert(b.id);
            }
        }
        for (const StoredTrial &trial : trials(e.id)) {
            if (!kept.count(trial.id)) {
                Query q(state_->db, "DELETE FROM trials WHERE id = ?");
                q.bind(trial.id).step();
                removed++;
            }
        }
        if (kept.empty()) {
            Query q(state_->db, "DELETE FROM entries WHERE id = ?");
            q.bind(e.id).step();
        }
    }
    t.commit();
    state_->db.run("VACUUM");
    return removed;
}

} // namespace kiln::search
