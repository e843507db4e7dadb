/** \file
 * Which targets a schedule is for.
 */
#pragma once

#include "dsl/schedule/Schedule.h"
#include "dsl/target/Target.h"

namespace kiln {

/// Whether code for `pattern` may run on `target`. `cpu avx2` matches every CPU target that includes AVX2; `cuda sm_90a`
/// matches that GPU kind alone; `cuda sm >= 80` all from there on; a bare backend all its targets. When it does not
/// match, `*reason` (may be null) says why: "it needs `avx512`, the target has `avx2`".
bool matches(const TargetPattern &pattern, const Target &target, std::string *reason = nullptr);

/// The plain target to build for when only the schedule is given: its backend and greatest feature.
Target target_of(const TargetPattern &pattern);

} // namespace kiln
