#include "dsl/schedule/CheckContext.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace kiln {

std::string where(Span span) {
    return span.line > 0 ? fmt::format("line {}", span.line) : "the algorithm";
}

std::string names_text(const std::vector<std::string> &names, const char *none) {
    if (names.empty()) {
        return none;
    }
    std::string text;
    for (size_t i = 0; i < names.size(); i++) {
        text += i == 0 ? "" : i + 1 == names.size() ? " and " : ", ";
        text += "`" + names[i] + "`";
    }
    return text;
}

bool is_folded_in(const FuncNest &f) {
    return f.is_inlined() && !f.is_output &&
           (f.is_input || f.is_wrapper || (f.info && f.info->can_be_inlined));
}

Diagnostic &CheckContext::report(std::string code, std::string message, Span span, std::string label) {
    Diagnostic d;
    d.code = std::move(code);
    d.message = std::move(message);
    d.file = schedule.file;
    d.span = span;
    d.label = std::move(label);
    diagnostics.push_back(std::move(d));
    return diagnostics.back();
}

Diagnostic &CheckContext::warn(std::string code, std::string message, Span span, std::string label) {
    Diagnostic &d = report(std::move(code), std::move(message), span, std::move(label));
    d.severity = Severity::Warning;
    return d;
}

const std::vector<CheckContext::Chain> &CheckContext::uses_of(const std::string &func) {
    if (auto it = uses.find(func); it != uses.end()) {
        return it->second;
    }
    static const std::vector<Chain> none;
    const FuncNest *f = nest.find(func);
    if (!f || !in_progress.insert(func).second) {
        return none;
    }
    std::vector<Chain> found;
    auto add = [&](Chain chain) {
        auto same = [](const LoopNest::Enclosing &a, const LoopNest::Enclosing &b) {
            return a.stage == b.stage && a.index == b.index;
        };
        bool known = std::any_of(found.begin(), found.end(), [&](const Chain &other) {
            return std::equal(other.begin(), other.end(), chain.begin(), chain.end(), same);
        });
        if (!known) {
            found.push_back(std::move(chain));
        }
    };
    for (const std::string &caller : f->callers) {
        const FuncNest *c = nest.find(caller);
        if (!c) {
            continue;
        }
        if (is_folded_in(*c)) {
            for (const Chain &chain : uses_of(caller)) {
                add(chain);
            }
            continue;
        }
        for (const StageNest &stage : c->stages) {
            bool reads = std::any_of(stage.reads.begin(), stage.reads.end(),
                                     [&](const ReadInfo &read) { return read.func == func; });
            if (!reads) {
                continue;
            }
            if (!c->is_inlined()) {
                add(nest.around_body(*c, stage));
                continue;
            }
            // A Func with updates and no place of its own is computed in the innermost loops of its readers.
            for (Chain chain : uses_of(caller)) {
                for (int i = static_cast<int>(stage.loops.size()); i-- > 0;) {
                    chain.push_back({c, &stage, i});
                }
                add(std::move(chain));
            }
        }
    }
    in_progress.erase(func);
    return uses[func] = std::move(found);
}

std::vector<CheckContext::Chain> CheckContext::places_of(const FuncNest &f) {
    if (f.compute.kind == NestLevel::Kind::Root) {
        return {Chain()};
    }
    std::vector<Chain> places;
    for (Chain chain : uses_of(f.name)) {
        size_t end = chain.size();
        for (size_t i = 0; i < chain.size() && f.compute.kind == NestLevel::Kind::At; i++) {
            if (chain[i].func->name == f.compute.func && chain[i].loop().name == f.compute.loop) {
                end = i + 1;
            }
        }
        chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(end), chain.end());
        places.push_back(std::move(chain));
    }
    if (places.empty()) {
        places.push_back(nest.enclosing(f.compute));
    }
    return places;
}

std::vector<std::string> CheckContext::legal_places(const std::string &func) {
    const std::vector<Chain> &chains = uses_of(func);
    std::vector<std::string> places;
    if (chains.empty()) {
        return places;
    }
    for (const LoopNest::Enclosing &e : chains[0]) {
        std::string loop = e.loop().name;
        bool everywhere = std::all_of(chains.begin(), chains.end(), [&](const Chain &chain) {
            return std::any_of(chain.begin(), chain.end(), [&](const LoopNest::Enclosing &other) {
                return other.func == e.func && other.loop().name == loop;
            });
        });
        bool block_inside =
            std::any_of(e.stage->loops.begin(), e.stage->loops.begin() + e.index,
                        [&](const Loop &l) { return is_gpu_loop(l.kind) && l.kind == e.loop().kind; });
        std::string place = fmt::format("compute_at({}, {})", e.func->name, loop);
        bool known = std::find(places.begin(), places.end(), place) != places.end();
        if (everywhere && !block_inside && !known) {
            places.push_back(std::move(place));
        }
    }
    return places;
}

} // namespace kiln
