/** \file
 * On which of its dimensions a component of a Func depends at all. A maximum that is carried beside a product in one
 * Tuple has only the dimensions of the maximum.
 */
#pragma once

#include <Halide.h>

#include <map>
#include <set>
#include <tuple>

namespace kiln::tile {

class Dependence {
public:
    /// Whether component `c` of `f` depends on dimension `d`, through its own other components and the Funcs it reads.
    bool on(const Halide::Internal::Function &f, int c, int d);

private:
    using Question = std::tuple<std::string, int, int>;
    std::map<Question, bool> known_;
    std::set<Question> asking_;
};

} // namespace kiln::tile
