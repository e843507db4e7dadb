#include "dsl/schedule/apply/Apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kiln {

namespace {

/// Collects warnings and turns errors into exceptions while it lives. Halide keeps one reporter a process.
class Listen : public Halide::CompileTimeErrorReporter {
public:
    Listen() { Halide::set_custom_compile_time_error_reporter(this); }
    ~Listen() override { Halide::set_custom_compile_time_error_reporter(nullptr); }
    void warning(const char *message) override { warnings.emplace_back(message); }
    [[noreturn]] void error(const char *message) override {
        if (std::string(message).find("Internal Error") != std::string::npos) {
            throw Halide::InternalError(message);
        }
        throw Halide::CompileError(message);
    }
    std::vector<std::string> warnings;
};

/// Without the numbers of this process, so that the same fault of two builds compares equal.
std::string clean(std::string text) {
    std::string out;
    for (size_t i = 0; i < text.size(); i++) {
        char c = text[i] == '\n' ? ' ' : text[i];
        if (c == '$' && i + 1 < text.size() && isdigit(static_cast<unsigned char>(text[i + 1]))) {
            while (i + 1 < text.size() && isdigit(static_cast<unsigned char>(text[i + 1]))) {
                i++;
            }
            continue;
        }
        out += c;
    }
    for (const char *prefix : {"Error: ", "Warning: "}) {
        if (out.starts_with(prefix)) {
            out.erase(0, std::string(prefix).size());
        }
    }
    while (!out.empty() && out.back() == ' ') {
        out.pop_back();
    }
    return out;
}

struct Outcome {
    std::optional<Diagnostic> refusal; ///< a directive that Halide would not take
    std::string error;                 ///< what lowering said
    bool internal = false;
    std::set<std::string> warnings;
    bool ok() const { return !refusal && error.empty(); }
};

Outcome try_schedule(const BuildPipeline &build, const Schedule &schedule, const Target &target) {
    Outcome outcome;
    Listen listen;
    try {
        std::vector<Halide::Func> outputs = build();
        FuncMap funcs = funcs_of(outputs);
        apply_schedule(schedule, funcs, target);
        Halide::Pipeline pipeline(outputs);
        pipeline.compile_to_module(pipeline.infer_arguments(), "kernel", Halide::Target(target.halide()));
    } catch (const Error &e) {
        outcome.refusal = e.diagnostics.front();
    } catch (const Halide::InternalError &e) {
        outcome.error = clean(e.what());
        outcome.internal = true;
    } catch (const Halide::Error &e) {
        outcome.error = clean(e.what());
    }
    for (const std::string &warning : listen.warnings) {
        outcome.warnings.insert(clean(warning));
    }
    return outcome;
}

struct Place {
    Span span;
    std::string directive;
};

/// The last directive without which `gone` holds, found by building without each in turn; then the last statement.
template<typename Gone>
Place blame(const BuildPipeline &build, const Schedule &schedule, const Target &target, Gone gone) {
    for (bool whole_statements : {false, true}) {
        for (size_t s = schedule.statements.size(); s-- > 0;) {
            size_t calls = schedule.statements[s].calls.size();
            for (size_t c = whole_statements ? 1 : calls; c-- > 0;) {
                Schedule without = schedule;
                if (whole_statements) {
                    without.statements.erase(without.statements.begin() + static_cast<std::ptrdiff_t>(s));
                } else {
                    auto &chain = without.statements[s].calls;
                    chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(c));
                }
                if (gone(try_schedule(build, without, target))) {
                    const Statement &statement = schedule.statements[s];
                    if (whole_statements) {
                        return {statement.span, "this statement"};
                    }
                    return {statement.calls[c].span, "`" + statement.calls[c].name + "`"};
                }
            }
        }
    }
    return {schedule.name_span, "this schedule"};
}

} // namespace

std::vector<Diagnostic> halide_faults(const BuildPipeline &build, const Schedule &canonical,
                                      const Target &target) {
    std::vector<Diagnostic> faults;
    Outcome outcome = try_schedule(build, canonical, target);
    if (outcome.refusal) {
        return {*outcome.refusal};
    }
    auto report = [&](const char *code, Severity severity, const char *verb, const std::string &text,
                      const Place &at) {
        Diagnostic d;
        d.code = code;
        d.severity = severity;
        d.message = fmt::format("{} {}", verb, at.directive);
        d.file = canonical.file;
        d.span = at.span;
        d.label = "without it the rest is accepted";
        d.notes = {"Halide says: " + text};
        faults.push_back(std::move(d));
    };
    if (!outcome.ok()) {
        Place at = blame(build, canonical, target, [](const Outcome &o) { return o.ok(); });
        report("K0503", Severity::Error,
               outcome.internal ? "Halide fails inside itself on" : "Halide cannot lower the pipeline with",
               outcome.error, at);
        return faults;
    }
    for (const std::string &warning : outcome.warnings) {
        Place at = blame(build, canonical, target,
                         [&](const Outcome &o) { return o.ok() && !o.warnings.count(warning); });
        report("K0504", Severity::Warning, "Halide warns about", warning, at);
    }
    return faults;
}

} // namespace kiln
