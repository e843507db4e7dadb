#include "apps/kiln/ScheduleDiff.h"

#include "dsl/schedule/Diff.h"
#include "dsl/schedule/Parser.h"
#include "dsl/schedule/Print.h"

#include <algorithm>

namespace kiln::cli {

namespace {

std::vector<std::string> split_lines(const std::string &text) {
    std::vector<std::string> lines;
    for (size_t start = 0; start < text.size();) {
        size_t end = std::min(text.find('\n', start), text.size());
        std::string line = text.substr(start, end - start);
        while (!line.empty() && (line.back() == ' ' || line.back() == '\t' || line.back() == '\r')) {
            line.pop_back();
        }
        line.erase(0, line.find_first_not_of(" \t"));
        if (!line.empty()) {
            lines.push_back(std::move(line));
        }
        start = end + 1;
    }
    return lines;
}

std::vector<std::string> marked(const char *mark, const Schedule &schedule) {
    std::vector<std::string> lines;
    for (const std::string &line : split_lines(print_text(schedule))) {
        lines.push_back(mark + line);
    }
    return lines;
}

const Schedule *find(const std::vector<Schedule> &schedules, const std::string &name) {
    auto it =
        std::find_if(schedules.begin(), schedules.end(), [&](const Schedule &s) { return s.name == name; });
    return it == schedules.end() ? nullptr : &*it;
}

} // namespace

std::vector<std::string> diff_lines(const std::vector<std::string> &a, const std::vector<std::string> &b) {
    // Common ends first: files of thousands of lines differ in few, and the table below is quadratic.
    size_t head = 0;
    while (head < a.size() && head < b.size() && a[head] == b[head]) {
        head++;
    }
    size_t tail = 0;
    while (tail < a.size() - head && tail < b.size() - head &&
           a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) {
        tail++;
    }
    size_t n = a.size() - head - tail, m = b.size() - head - tail;
    std::vector<std::string> out;
    if (n * m > 4'000'000) {
        for (size_t i = 0; i < n; i++) {
            out.push_back("- " + a[head + i]);
        }
        for (size_t j = 0; j < m; j++) {
            out.push_back("+ " + b[head + j]);
        }
        return out;
    }
    // longest[i][j]: length of the longest common subsequence of a's last i and b's last j lines.
    std::vector<std::vector<int>> longest(n + 1, std::vector<int>(m + 1, 0));
    auto A = [&](size_t i) -> const std::string & { return a[head + n - i]; };
    auto B = [&](size_t j) -> const std::string & { return b[head + m - j]; };
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            longest[i][j] =
                A(i) == B(j) ? longest[i - 1][j - 1] + 1 : std::max(longest[i - 1][j], longest[i][j - 1]);
        }
    }
    for (size_t i = n, j = m; i > 0 || j > 0;) {
        if (i > 0 && j > 0 && A(i) == B(j)) {
            i--;
            j--;
        } else if (i > 0 && (j == 0 || longest[i - 1][j] >= longest[i][j - 1])) {
            out.push_back("- " + A(i--));
        } else {
            out.push_back("+ " + B(j--));
        }
    }
    return out;
}

std::vector<std::string> diff_schedules(const std::vector<Schedule> &a, const std::vector<Schedule> &b) {
    std::vector<std::string> out;
    auto append = [&](const std::vector<std::string> &lines) {
        out.insert(out.end(), lines.begin(), lines.end());
    };
    // Two files of one schedule each are compared whatever the names are.
    bool single = a.size() == 1 && b.size() == 1;
    for (const Schedule &before : a) {
        const Schedule *after = single ? &b.front() : find(b, before.name);
        append(after ? split_lines(schedule_diff(before, *after)) : marked("- ", before));
    }
    for (const Schedule &after : b) {
        if (!single && !find(a, after.name)) {
            append(marked("+ ", after));
        }
    }
    return out;
}

std::vector<std::string> diff_texts(const std::string &a, const std::string &b) {
    ParseResult before = parse_schedules(a, ""), after = parse_schedules(b, "");
    if (before.ok() && after.ok()) {
        return diff_schedules(before.schedules, after.schedules);
    }
    return diff_lines(split_lines(a), split_lines(b));
}

} // namespace kiln::cli
