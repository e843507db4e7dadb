/** \file
 * SQLite's C interface with results as diagnostics and statements that end themselves.
 */
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

struct sqlite3;
struct sqlite3_stmt;

namespace kiln::search {

/// A connection. Throws Error K1310 for whatever SQLite refuses, with its words.
class Sqlite {
public:
    explicit Sqlite(const std::filesystem::path &path);
    ~Sqlite();
    Sqlite(const Sqlite &) = delete;
    Sqlite &operator=(const Sqlite &) = delete;

    void run(const char *sql);
    int64_t last_id() const;
    int64_t changes() const;
    [[noreturn]] void fail() const;
    sqlite3 *get() const { return db_; }
    const std::filesystem::path &path() const { return path_; }

private:
    std::filesystem::path path_;
    sqlite3 *db_ = nullptr;
};

/// One statement with its values, in the order of its question marks.
class Query {
public:
    Query(Sqlite &db, const char *sql);
    ~Query();
    Query(const Query &) = delete;
    Query &operator=(const Query &) = delete;

    Query &bind(int64_t value);
    Query &bind(double value);
    Query &bind(const std::string &value);
    /// True while there is a row.
    bool step();
    int64_t integer(int column) const;
    double real(int column) const;
    std::string text(int column) const;

private:
    Sqlite &db_;
    sqlite3_stmt *statement_ = nullptr;
    int bound_ = 0;
};

/// From construction to commit(); without it, nothing has happened.
class Transaction {
public:
    explicit Transaction(Sqlite &db);
    ~Transaction();
    Transaction(const Transaction &) = delete;
    Transaction &operator=(const Transaction &) = delete;
    void commit();

private:
    Sqlite &db_;
    bool open_ = true;
};

} // namespace kiln::search
