/** \file
 * What the files of Database share: the connection, and rows of its tables from and to values.
 */
#pragma once

#include "dsl/search/database/Database.h"
#include "dsl/search/database/Sqlite.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace kiln::search {

/// Of the file's tables and of export_json's document.
constexpr int64_t database_version = 1;

constexpr const char *trial_columns =
    "id, entry, run, score, cool_score, predicted, sigma, loose_key, date, at, job, outcome";

struct Database::State {
    Sqlite db;
    explicit State(const std::filesystem::path &path) : db(path) {}

    /// `where` may have one question mark, for `value`.
    std::vector<Entry> entries(const std::string &where, const std::string &value);
    /// The trial's number; 0 where the verb left it out.
    int64_t insert(const StoredTrial &trial, const char *verb = "INSERT");
};

/// A row of `trial_columns`.
StoredTrial trial_of(const Query &row);

/// On one line; bytes that are no UTF-8 are replaced.
std::string one_line(const nlohmann::json &json);

[[noreturn]] void database_fault(const char *code, std::string message, std::string help);

} // namespace kiln::search
