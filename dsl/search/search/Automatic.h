/** \file
 * `auto` in a library that a build asks for: the search's answer to AutomaticSchedule of dsl/lower, which knows no search.
 */
#pragma once

#include "dsl/lower/LibraryRequest.h"

namespace kiln::search {

/// For the generator's first problem for timing that its parameters fit, on this machine's device; on a common one of its
/// kind where there is none. Warnings (K1335, K1336) go to the standard error. Throws Error as problem_of and
/// tuned_schedule.
std::vector<VariantRequest> automatic_schedule(const BuildRequest &request, const Target &target);

} // namespace kiln::search
