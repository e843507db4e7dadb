#include "dsl/tile/passes/Runner.h"

#include "dsl/tile/ir/Text.h"
#include "dsl/tile/passes/Verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <sstream>

namespace kiln::tile {

Kernel run_passes(Kernel k, const DeviceLimits &limits, std::vector<PassRun> *log) {
    std::string text = log ? print(k) : "";
    auto check = [&](const std::string &after) {
        std::vector<Diagnostic> found = verify(k, limits);
        for (Diagnostic &d : found) {
            d.notes.push_back(fmt::format("after {}", after));
        }
        if (!found.empty()) {
            throw Error(std::move(found));
        }
    };
    check("build");
    for (const Pass &p : passes()) {
        const auto start = std::chrono::steady_clock::now();
        auto note = [&] {
            if (log) {
                const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
                std::string after = print(k);
                log->push_back({p.name, took.count(), std::move(text), after});
                text = std::move(after);
            }
        };
        try {
            p.run(k, limits);
        } catch (...) {
            note();
            throw;
        }
        note();
        check(p.name);
    }
    return k;
}

namespace {

std::vector<std::string> lines_of(const std::string &text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    return lines;
}

/// Lines gone with `-` and lines come with `+`, by their longest common subsequence.
std::string difference(const std::vector<std::string> &a, const std::vector<std::string> &b) {
    std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1));
    for (size_t i = a.size(); i-- > 0;) {
        for (size_t j = b.size(); j-- > 0;) {
            common[i][j] =
                a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
        }
    }
    std::string out;
    for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
        if (i < a.size() && j < b.size() && a[i] == b[j]) {
            i++, j++;
        } else if (j == b.size() || (i < a.size() && common[i + 1][j] >= common[i][j + 1])) {
            out += "  - " + a[i++] + "\n";
        } else {
            out += "  + " + b[j++] + "\n";
        }
    }
    return out;
}

} // namespace

std::string explain_passes(const std::vector<PassRun> &log, const std::string &only) {
    std::string out;
    for (const PassRun &p : log) {
        if (!only.empty() && p.name != only) {
            continue;
        }
        out += fmt::format("{} ({:.1f} ms){}\n", p.name, p.seconds * 1e3, p.changed() ? "" : ": no change");
        if (!only.empty()) {
            out += "before\n" + p.before + "after\n" + p.after;
        } else if (p.changed()) {
            out += difference(lines_of(p.before), lines_of(p.after));
        }
    }
    return out;
}

} // namespace kiln::tile
