#include "dsl/lower/TileShim.h"

#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

namespace kiln {

namespace {

using Halide::Expr;
using Halide::Type;
using namespace Halide::Internal;
using Role = TileStageView::Role;
using Param = tile::KernelParam;

using Names = std::function<std::string(const std::string &)>;

[[noreturn]] void refuse(std::string message, std::vector<std::string> notes = {}) {
    Diagnostic d;
    d.code = "K1190";
    d.message = std::move(message);
    d.notes = std::move(notes);
    throw Error(std::move(d));
}

std::string text_of(const Expr &e) {
    std::ostringstream out;
    out << e;
    return out.str();
}

class PrintC : public IRVisitor {
public:
    explicit PrintC(const Names &names) : names_(names) {}

    std::string print(const Expr &e) {
        text_.clear();
        known_ = true;
        e.accept(this);
        if (!known_ || text_.empty()) {
            refuse("a launch cannot compute this value", {text_of(e)});
        }
        return text_;
    }

    using IRVisitor::visit;
    void visit(const IntImm *op) override { text_ = fmt::format("INT64_C({})", op->value); }
    void visit(const UIntImm *op) override { text_ = fmt::format("INT64_C({})", op->value); }
    void visit(const FloatImm *) override { known_ = false; }
    void visit(const StringImm *) override { known_ = false; }
    void visit(const Variable *op) override { text_ = names_(op->name); }
    void visit(const Cast *op) override {
        std::string value = print_in(op->value);
        if (!op->type.is_int_or_uint() || !op->value.type().is_int_or_uint()) {
            known_ = false;
        }
        bool widens = op->type.bits() > op->value.type().bits();
        text_ = op->type.is_bool() ? fmt::format("({} != 0)", value)
                : widens           ? value
                                   : fmt::format("(int64_t)({}int{}_t){}", op->type.is_uint() ? "u" : "",
                                                 op->type.bits(), value);
    }
    void visit(const Add *op) override { infix("+", op->a, op->b); }
    void visit(const Sub *op) override { infix("-", op->a, op->b); }
    void visit(const Mul *op) override { infix("*", op->a, op->b); }
    void visit(const Div *op) override { call("quotient", op->a, op->b); }
    void visit(const Mod *op) override { call("remainder_of", op->a, op->b); }
    void visit(const Min *op) override { call("least", op->a, op->b); }
    void visit(const Max *op) override { call("most", op->a, op->b); }
    void visit(const EQ *op) override { infix("==", op->a, op->b); }
    void visit(const NE *op) override { infix("!=", op->a, op->b); }
    void visit(const LT *op) override { infix("<", op->a, op->b); }
    void visit(const LE *op) override { infix("<=", op->a, op->b); }
    void visit(const GT *op) override { infix(">", op->a, op->b); }
    void visit(const GE *op) override { infix(">=", op->a, op->b); }
    void visit(const And *op) override { infix("&&", op->a, op->b); }
    void visit(const Or *op) override { infix("||", op->a, op->b); }
    void visit(const Not *op) override { text_ = "!" + print_in(op->a); }
    void visit(const Select *op) override {
        std::string condition = print_in(op->condition), yes = print_in(op->true_value);
        text_ = fmt::format("({} ? {} : {})", condition, yes, print_in(op->false_value));
    }
    void visit(const Let *op) override { text_ = print_in(substitute_in_all_lets(op)); }
    void visit(const Call *op) override {
        if (op->is_intrinsic(Call::likely) || op->is_intrinsic(Call::likely_if_innermost)) {
            text_ = print_in(op->args[0]);
        } else if (op->is_intrinsic(Call::abs)) {
            text_ = fmt::format("magnitude({})", print_in(op->args[0]));
        } else if (op->is_intrinsic(Call::unsafe_promise_clamped) ||
                   op->is_intrinsic(Call::promise_clamped)) {
            text_ = print_in(op->args[0]);
        } else {
            known_ = false;
        }
    }

private:
    std::string print_in(const Expr &e) {
        e.accept(this);
        return text_;
    }
    void infix(const char *op, const Expr &a, const Expr &b) {
        std::string left = print_in(a);
        text_ = fmt::format("({} {} {})", left, op, print_in(b));
        known_ &= !a.type().is_float();
    }
    void call(const char *function, const Expr &a, const Expr &b) {
        std::string left = print_in(a);
        text_ = fmt::format("{}({}, {})", function, left, print_in(b));
        known_ &= !a.type().is_float();
    }

    const Names &names_;
    std::string text_;
    bool known_ = true;
};

std::string identifier(const std::string &prefix, const std::string &name) {
    std::string out = prefix;
    for (char c : name) {
        out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    }
    return out;
}

std::string c_string(const std::string &text) {
    std::string out = "\"";
    for (char ch : text) {
        unsigned char c = static_cast<unsigned char>(ch);
        out += c == '"' || c == '\\' || c < 32 || c >= 127 || c == '?' ? fmt::format("\\{:03o}", c)
                                                                       : std::string(1, ch);
    }
    return out + "\"";
}

std::string scalar_type(Type t) {
    if (t.is_float() && t.bits() >= 32) {
        return t.bits() == 32 ? "float" : "double";
    }
    return t.is_bool() ? "uint8_t" : fmt::format("{}int{}_t", t.is_int() ? "" : "u", t.bits());
}

const char *element(const TileStageView &v) {
    Type t = v.type;
    if (t.is_bfloat()) {
        return "KILN_TILE_BFLOAT16";
    }
    switch (t.bits()) {
    case 64:
        return t.is_float() ? "KILN_TILE_FLOAT64" : t.is_int() ? "KILN_TILE_INT64" : "KILN_TILE_UINT64";
    case 32:
        return t.is_float() ? "KILN_TILE_FLOAT32" : t.is_int() ? "KILN_TILE_INT32" : "KILN_TILE_UINT32";
    case 16:
        return t.is_float() ? "KILN_TILE_FLOAT16" : "KILN_TILE_UINT16";
    default:
        return "KILN_TILE_UINT8";
    }
}

/// One stage's part of the file.
class Shim {
public:
    explicit Shim(const TileStage &stage) : s_(stage) {}

    std::string text() { return kernel() + function() + "\n"; }
    std::string kernel_name() const { return s_.symbol + "_kernel"; }

private:
    std::string kernel() const {
        const tile::EmittedKernel &k = s_.kernel;
        // The image as it is on disk: no text of a hundred thousand numbers to compile.
        return fmt::format(
            R"(__asm__(".section .rodata,\"a\",@progbits\n"
        ".balign 64\n"
        "{symbol}_image:\n"
        ".incbin \"{symbol}.image\"\n"
        ".byte 0\n"
        ".previous\n");
extern const unsigned char {symbol}_image[] __attribute__((visibility("hidden")));
static uint32_t {symbol}_id;
static const kiln_tile_kernel {symbol}_kernel = {{
    {name}, {function}, {symbol}_image, {bytes}, &{symbol}_id,
    {threads}, {shared}, {cluster}, {persistent}, {ahead}, 0, {backend}}};

)",
            fmt::arg("symbol", s_.symbol), fmt::arg("name", c_string(s_.func)),
            fmt::arg("function", c_string(k.name)), fmt::arg("bytes", s_.compiled.cubin.size()),
            fmt::arg("threads", k.threads), fmt::arg("shared", k.shared_bytes),
            fmt::arg("cluster", k.cluster), fmt::arg("persistent", k.persistent ? 1 : 0),
            fmt::arg("ahead", k.launch_ahead ? 1 : 0),
            fmt::arg("backend", s_.backend == Backend::OpenCL ? "KILN_TILE_OPENCL" : "KILN_TILE_CUDA"));
    }

    std::string variable(const std::string &name) const {
        for (const auto &[bound, value] : s_.bounds) {
            if (bound == name) {
                return identifier("b_", name);
            }
        }
        for (const auto &[scalar, type] : s_.scalars) {
            if (scalar == name) {
                return identifier("s_", name);
            }
        }
        for (size_t v = 0; v < s_.views.size(); v++) {
            const std::string &view = s_.views[v].name;
            if (name.size() <= view.size() + 1 || name.compare(0, view.size(), view) != 0 ||
                name[view.size()] != '.') {
                continue;
            }
            std::string rest = name.substr(view.size() + 1); // extent.0
            for (const char *field : {"min", "extent", "stride"}) {
                for (int d = 0; d < s_.views[v].rank; d++) {
                    if (rest == fmt::format("{}.{}", field, d)) {
                        if (field[0] == 'e' && clipped(v, d)) {
                            return fmt::format("e{}_{}", v, d);
                        }
                        return fmt::format("(int64_t)v{}->dim[{}].{}", v, d, field);
                    }
                }
            }
        }
        refuse(
            fmt::format("the tile kernel of `{}` needs `{}`, which its launch does not know", s_.func, name));
    }

    bool clipped(size_t view, int d) const {
        const TileStageView &v = s_.views[view];
        return v.role == Role::Input && v.clipped[static_cast<size_t>(d)];
    }

    std::string c(const Expr &e) const {
        return shim_expr(e, [this](const std::string &name) { return variable(name); });
    }

    std::string signature() const {
        std::string out = fmt::format("int {}(void *user_context", s_.symbol);
        bool scalars_done = false;
        for (size_t v = 0; v < s_.views.size(); v++) {
            if (s_.views[v].role == Role::Output && !scalars_done) {
                out += scalars();
                scalars_done = true;
            }
            out += fmt::format(", halide_buffer_t *v{}", v);
        }
        return out + ")";
    }

    std::string scalars() const {
        std::string out;
        for (const auto &[name, type] : s_.scalars) {
            out += fmt::format(", {} {}", scalar_type(type), identifier("s_", name));
        }
        return out;
    }

    std::string function() const {
        std::string out = signature() + " {\n";
        for (const auto &[name, value] : s_.bounds) {
            out += fmt::format("    const int64_t {} = {};\n", identifier("b_", name), c(value));
        }
        for (size_t v = 0; v < s_.views.size(); v++) {
            for (int d = 0; d < s_.views[v].rank; d++) {
                if (clipped(v, d)) {
                    out += fmt::format(
                        "    const int64_t e{0}_{1} = most(least(v{0}->dim[{1}].extent, {2} + 1), 0);\n", v,
                        d, c(s_.views[v].reads[static_cast<size_t>(d)].last));
                }
            }
        }
        out += "    const kiln_tile_view views[] = {\n";
        for (size_t v = 0; v < s_.views.size(); v++) {
            const TileStageView &view = s_.views[v];
            std::vector<std::string> box;
            for (const TileRange &r : view.reads) {
                box.push_back(fmt::format("{{{}, {}}}", c(r.first), c(r.last)));
            }
            std::vector<std::string> extents;
            for (int d = 0; d < view.rank; d++) {
                extents.push_back(clipped(v, d) ? fmt::format("e{}_{}", v, d)
                                                : fmt::format("v{}->dim[{}].extent", v, d));
            }
            out += fmt::format("        {{{}, v{}, {}, {}, {{{}}}, {{{}}}}},\n", c_string(view.name), v,
                               element(view), view.role == Role::Input ? 0 : 1,
                               box.empty() ? "{0, -1}" : fmt::format("{}", fmt::join(box, ", ")),
                               fmt::join(extents, ", "));
        }
        size_t n = s_.views.size();
        out += fmt::format("    }};\n"
                           "    if (kiln_tile_query(views, {0})) {{\n        return 0;\n    }}\n"
                           "    int code = kiln_tile_check(user_context, &{1}, views, {0});\n",
                           n, kernel_name());
        for (const Expr &condition : s_.conditions) {
            out += fmt::format("    if (!code && !({})) {{\n"
                               "        code = kiln_tile_refuse(user_context, &{}, {});\n    }}\n",
                               c(condition), kernel_name(), c_string(text_of(simplify(condition))));
        }
        out += "    if (code) {\n        return code;\n    }\n";
        std::vector<std::string> grid;
        for (const tile::GridLoop &g : s_.kernel.grid) {
            grid.push_back(c(g.extent));
        }
        if (grid.empty()) {
            grid.push_back("1");
        }
        out += fmt::format("    const int64_t grid[] = {{{}}};\n    kiln_tile_param params[] = {{\n",
                           fmt::join(grid, ", "));
        std::string copies;
        for (size_t i = 0; i < s_.kernel.params.size(); i++) {
            out += "        " + param(s_.kernel.params[i], i, copies) + ",\n";
        }
        out += fmt::format("    }};\n{}    return kiln_tile_launch(user_context, &{}, views, {}, grid, {}, "
                           "params, {});\n}}\n",
                           copies, kernel_name(), n, grid.size(), s_.kernel.params.size());
        return out;
    }

    size_t index_of(const std::string &view) const {
        for (size_t v = 0; v < s_.views.size(); v++) {
            if (s_.views[v].name == view) {
                return v;
            }
        }
        refuse(
            fmt::format("the tile kernel of `{}` reads `{}`, which is no view of its launch", s_.func, view));
    }

    std::vector<std::string> box(const tile::TensorMapParam &map) const {
        std::vector<std::string> out;
        for (size_t d = 0; d < map.box.size(); d++) {
            const std::string most = std::to_string(map.box[d]);
            if (static_cast<int>(d) != map.clipped) {
                out.push_back(most);
                continue;
            }
            const std::string extent = variable(fmt::format("{}.extent.{}", map.view, d));
            out.push_back(fmt::format("(int32_t)most(least(({} + 7) / 8 * 8, {}), 8)", extent, most));
        }
        return out;
    }

    std::string param(const Param &p, size_t i, std::string &copies) const {
        switch (p.kind) {
        case Param::Kind::TensorMap:
            return fmt::format("{{KILN_TILE_TENSOR_MAP, {}, {}, 0, {{{}}}, 0}}", index_of(p.map.view),
                               p.map.swizzle, fmt::join(box(p.map), ", "));
        case Param::Kind::Pointer:
            return fmt::format("{{KILN_TILE_POINTER, {}, 0, 0, {{0}}, 0}}", index_of(p.view));
        case Param::Kind::Counter:
            return "{KILN_TILE_COUNTER, 0, 0, 0, {0}, 0}";
        case Param::Kind::Workspace:
            return fmt::format("{{KILN_TILE_WORKSPACE, 0, 0, 0, {{0}}, {}, 0}}", c(p.value));
        case Param::Kind::Counters:
            return fmt::format("{{KILN_TILE_COUNTERS, 0, 0, 0, {{0}}, {}, 0}}", c(p.value));
        case Param::Kind::Reciprocal:
            return fmt::format("{{KILN_TILE_RECIPROCAL, 0, 0, 0, {{0}}, {}}}", c(p.value));
        case Param::Kind::Value:
            break;
        }
        const Variable *scalar = p.value.as<Variable>();
        bool whole = scalar && std::any_of(s_.scalars.begin(), s_.scalars.end(),
                                           [&](const auto &s) { return s.first == scalar->name; });
        if (whole) {
            std::string name = identifier("s_", scalar->name);
            copies += fmt::format("    memcpy(&params[{}].value, &{}, sizeof({}));\n", i, name, name);
            return fmt::format("{{KILN_TILE_VALUE, 0, 0, 0, {{0}}, 0, sizeof({})}}", name);
        }
        bool narrow = p.value.type() == Halide::Int(32);
        return fmt::format("{{{}, 0, 0, {}, {{0}}, {}, {}}}", narrow ? "KILN_TILE_INT" : "KILN_TILE_VALUE",
                           c_string(text_of(p.value)), c(p.value), p.value.type().bytes());
    }

    const TileStage &s_;
};

/// The stage of an output that another stage writes.
std::string allocate(const std::string &symbol, const std::string &kernel, int buffers) {
    std::string parameters, calls;
    for (int i = 0; i < buffers; i++) {
        parameters += fmt::format(", halide_buffer_t *b{}", i);
        calls += fmt::format("    if (!code && (b{0}->host || b{0}->device)) {{\n"
                             "        code = kiln_tile_allocate(user_context, &{1}, b{0});\n    }}\n",
                             i, kernel);
    }
    return fmt::format("int {}(void *user_context{}) {{\n    int code = 0;\n{}    return code;\n}}\n\n",
                       symbol, parameters, calls);
}

} // namespace

std::string tile_allocate_symbol(const TileStage &stage, const std::string &func) {
    return stage.symbol + identifier("_", func);
}

std::string shim_expr(const Expr &e, const Names &name) {
    return PrintC(name).print(e);
}

std::string tile_shim_text(const std::vector<TileStage> &stages, const std::string &table) {
    std::string out = R"(#include "kiln_tile.h"

#include <string.h>

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t most(int64_t a, int64_t b) {
    return a < b ? b : a;
}
static inline int64_t magnitude(int64_t a) {
    return a < 0 ? -a : a;
}
/* Halide's: the remainder is never negative, and what is divided by zero is zero. */
static inline int64_t quotient(int64_t a, int64_t b) {
    int64_t q = b ? a / b : 0, r = b ? a % b : 0;
    return r >= 0 ? q : b > 0 ? q - 1 : q + 1;
}
static inline int64_t remainder_of(int64_t a, int64_t b) {
    int64_t r = b ? a % b : 0;
    return r >= 0 ? r : r + magnitude(b);
}

)";
    std::string names;
    for (const TileStage &stage : stages) {
        Shim shim(stage);
        out += shim.text();
        names += fmt::format("&{}, ", shim.kernel_name());
        std::map<std::string, int> others;
        for (const TileStageView &v : stage.views) {
            others[v.name.substr(0, v.name.find('.'))] += v.role == Role::OtherOutput;
        }
        for (const auto &[func, buffers] : others) {
            if (buffers > 0) {
                out += allocate(tile_allocate_symbol(stage, func), shim.kernel_name(), buffers);
            }
        }
    }
    return out + fmt::format("const kiln_tile_kernel *const {}[] = {{{}0}};\n", table, names);
}

} // namespace kiln
