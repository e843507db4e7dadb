/** \file
 * A definition of a Func as a list of nodes that the evaluator walks: names resolved, shared subexpressions
 * kept shared.
 */
#pragma once

#include "dsl/check/Value.h"

#include <Halide.h>

#include <map>
#include <string>
#include <vector>

namespace kiln {

enum class Op : uint8_t {
    Constant,
    Variable, ///< index: slot in the frame's variables
    Scalar,   ///< index: into Program::scalars
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Min,
    Max,
    Compare, ///< index: enum Compare; operand_type is the operands' type
    And,
    Or,
    Not,
    Select,
    Cast, ///< from operand_type
    Reinterpret,
    Function, ///< name: of one argument
    Power,
    Arctangent2,
    IntegerOp, ///< name; two arguments, the second may be missing
    FuncRead,  ///< index: into Program::funcs, value_index of its Tuple
    ImageRead, ///< index: into Program::images
};

struct ExprNode {
    Op op = Op::Constant;
    Halide::Type type, operand_type;
    int index = 0, value_index = 0;
    bool folds_itself = false; ///< Min and Max over the Func that is being updated
    /// The innermost reduction loop that it depends on: 0 the innermost; the number of loops where none. A read
    /// of the Func that is being updated counts as 0.
    int level = 0;
    bool is_cached = false;
    std::string name;
    std::vector<int> args;
    Value constant;
};

/// What a scalar stands for: a parameter's value, or the min, extent or stride of a buffer's dimension.
struct ScalarRef {
    std::string name; ///< of the parameter, without `$1`
    enum class What { Value, Min, Extent, Stride } what = What::Value;
    int dimension = 0;
};

struct Program {
    std::vector<ExprNode> nodes;
    std::vector<int> roots;
    int variables = 0;              ///< slots: the definition's Vars, then its RVars, innermost first
    std::vector<std::string> funcs; ///< by Halide's names
    std::vector<ScalarRef> scalars;
    struct Image {
        std::string name;      ///< without `$1`; of an embedded constant buffer its own
        Halide::Buffer<> data; ///< defined for embedded constants
    };
    std::vector<Image> images;
};

/// Compiles expressions over `vars` (slot 0 …) and `rvars` (the slots after them). `self` names the Func that an
/// update belongs to, "" otherwise. Throws kiln::Error K0801 for what has no meaning on paper: extern calls,
/// random numbers, undef.
Program compile_program(const std::vector<Halide::Expr> &roots, const std::vector<std::string> &vars,
                        const std::vector<std::string> &rvars, const std::string &self);

/// `x$2` → `x`.
std::string unnumbered_name(const std::string &name);

} // namespace kiln
