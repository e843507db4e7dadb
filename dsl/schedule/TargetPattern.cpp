#include "dsl/schedule/TargetPattern.h"

#include <fmt/format.h>

namespace kiln {

namespace {

bool is_exact(const Target &target) {
    return target.backend == Backend::Cuda;
}

} // namespace

bool matches(const TargetPattern &pattern, const Target &target, std::string *reason) {
    auto refuse = [&](std::string why) {
        if (reason) {
            *reason = std::move(why);
        }
        return false;
    };
    if (pattern.backend != backend_name(target.backend)) {
        return refuse(fmt::format("it is for `{}`, the target is `{}`", pattern.str(), target.str()));
    }
    if (pattern.at_least && target.level() < *pattern.at_least) {
        return refuse(fmt::format("it needs `sm >= {}`, the target is `{}` (sm {})", *pattern.at_least,
                                  target.str(), target.level()));
    }
    for (const std::string &feature : pattern.features) {
        Target needed{target.backend, feature};
        bool has = is_exact(target) ? target.feature == feature : target.level() >= needed.level();
        if (!has) {
            return refuse(fmt::format("it needs {}`{}`, the target is `{}`",
                                      is_exact(target) ? "exactly " : "", feature, target.str()));
        }
    }
    return true;
}

Target target_of(const TargetPattern &pattern) {
    Target out = Target::parse(pattern.backend);
    for (const std::string &feature : pattern.features) {
        Target candidate{out.backend, feature};
        if (candidate.level() > out.level() || out.feature.empty()) {
            out = candidate;
        }
    }
    if (pattern.at_least) {
        for (const std::string &feature : target_features(out.backend)) {
            Target candidate{out.backend, feature};
            if (candidate.level() >= *pattern.at_least && feature.back() != 'a') {
                return candidate;
            }
        }
    }
    return out;
}

} // namespace kiln
