#include "dsl/search/database/Sqlite.h"

#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <sqlite3.h>

namespace kiln::search {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void cannot(const fs::path &path, const std::string &why) {
    Diagnostic d;
    d.code = "K1310";
    d.message = fmt::format("the database `{}` cannot be used: {}", path.string(), why);
    d.helps = {"name another file by `--database` or KILN_DATABASE"};
    throw Error(std::move(d));
}

} // namespace

Sqlite::Sqlite(const fs::path &path) : path_(path) {
    std::error_code error;
    if (path.has_parent_path()) {
        fs::create_directories(path.parent_path(), error);
    }
    if (sqlite3_open_v2(path.c_str(), &db_,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX,
                        nullptr) != SQLITE_OK) {
        std::string why = db_ ? sqlite3_errmsg(db_) : "no memory";
        sqlite3_close(db_);
        cannot(path, why);
    }
    sqlite3_busy_timeout(db_, 20000);
}

Sqlite::~Sqlite() {
    sqlite3_close(db_);
}

void Sqlite::fail() const {
    cannot(path_, sqlite3_errmsg(db_));
}

void Sqlite::run(const char *sql) {
    if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
        fail();
    }
}

int64_t Sqlite::last_id() const {
    return sqlite3_last_insert_rowid(db_);
}

int64_t Sqlite::changes() const {
    return sqlite3_changes(db_);
}

Query::Query(Sqlite &db, const char *sql) : db_(db) {
    if (sqlite3_prepare_v2(db.get(), sql, -1, &statement_, nullptr) != SQLITE_OK) {
        db.fail();
    }
}

Query::~Query() {
    sqlite3_finalize(statement_);
}

Query &Query::bind(int64_t value) {
    sqlite3_bind_int64(statement_, ++bound_, value);
    return *this;
}

Query &Query::bind(double value) {
    sqlite3_bind_double(statement_, ++bound_, value);
    return *this;
}

Query &Query::bind(const std::string &value) {
    sqlite3_bind_text(statement_, ++bound_, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    return *this;
}

bool Query::step() {
    int status = sqlite3_step(statement_);
    if (status != SQLITE_ROW && status != SQLITE_DONE) {
        db_.fail();
    }
    return status == SQLITE_ROW;
}

int64_t Query::integer(int column) const {
    return sqlite3_column_int64(statement_, column);
}

double Query::real(int column) const {
    return sqlite3_column_double(statement_, column);
}

std::string Query::text(int column) const {
    const auto *data = reinterpret_cast<const char *>(sqlite3_column_text(statement_, column));
    return data ? std::string(data, static_cast<size_t>(sqlite3_column_bytes(statement_, column))) : "";
}

Transaction::Transaction(Sqlite &db) : db_(db) {
    db.run("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
    if (open_) {
        sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    }
}

void Transaction::commit() {
    db_.run("COMMIT");
    open_ = false;
}

} // namespace kiln::search
