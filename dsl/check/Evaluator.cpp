#include "dsl/check/Evaluator.h"

#include "dsl/check/PointTable.h"
#include "dsl/check/Program.h"
#include "dsl/check/Tolerance.h"
#include "dsl/support/Diagnostic.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_map>

namespace kiln {

namespace {

using Halide::Expr;
using Halide::Type;
using Halide::Internal::Definition;
using Halide::Internal::Function;

constexpr int max_rank = 16;
using Point = std::array<int, max_rank>;

[[noreturn]] void fail(const char *code, std::string message, std::string help) {
    Diagnostic d;
    d.code = code;
    d.message = std::move(message);
    d.helps = {std::move(help)};
    throw Error(std::move(d));
}

/// One running walk over a program.
struct Frame {
    std::vector<int64_t> variables;
    std::vector<Value> cache;
    std::vector<uint64_t> stamps;
    std::vector<uint64_t> epochs; ///< by level; the last: of the whole walk
};

struct BoundImage {
    bool is_bound = false;
    Type type;
    const void *data = nullptr;
    std::vector<halide_dimension_t> dims;
    std::string name;
    Halide::Buffer<> owner; ///< of embedded constants
};

struct FuncData;

/// A program with its names resolved and frames to spare.
struct Resolved {
    Program program;
    std::vector<FuncData *> funcs;
    std::vector<BoundImage *> images;
    std::vector<std::unique_ptr<Frame>> spare;
};

/// Takes a frame for one walk and gives it back, also when the walk throws.
class Walk {
public:
    Walk(Resolved &code, uint64_t epoch);
    ~Walk() { code_.spare.push_back(std::move(frame_)); }
    Walk(const Walk &) = delete;
    Walk &operator=(const Walk &) = delete;
    Frame &frame() { return *frame_; }

private:
    Resolved &code_;
    std::unique_ptr<Frame> frame_;
};

Walk::Walk(Resolved &code, uint64_t epoch) : code_(code) {
    if (code.spare.empty()) {
        frame_ = std::make_unique<Frame>();
        frame_->variables.resize(code.program.variables);
        frame_->cache.resize(code.program.nodes.size());
        frame_->stamps.resize(code.program.nodes.size());
        int levels = 1;
        for (const ExprNode &n : code.program.nodes) {
            levels = std::max(levels, n.level + 1);
        }
        frame_->epochs.resize(levels);
    } else {
        frame_ = std::move(code.spare.back());
        code.spare.pop_back();
    }
    std::fill(frame_->epochs.begin(), frame_->epochs.end(), epoch);
}

struct Slice {
    PointTable points;
};

struct Stage {
    Resolved code;   ///< roots: the values, then the coordinates that are no pure Var, then the predicate
    Resolved bounds; ///< roots: min and extent of each reduction variable, innermost first
    int loops = 0;
    std::vector<int> pure_dims, other_dims;
    bool has_predicate = false;
    std::unique_ptr<PointTable> done; ///< where all dimensions are pure: the value after this stage
    std::unordered_map<std::string, std::unique_ptr<Slice>> slices; ///< else, by the pure coordinates
};

struct FuncData {
    std::string name;
    int rank = 0;
    std::vector<Type> types;
    std::vector<Stage> stages;
    bool is_remembered = true;
};

/// What a self-read in an update sees: the values of the slice that is being computed.
struct Current {
    FuncData *func = nullptr;
    int stage = 0;
    Slice *slice = nullptr;
    const Value *single = nullptr;
};

} // namespace

struct Evaluator::State {
    std::map<std::string, std::unique_ptr<FuncData>> funcs;
    std::vector<FuncData *> outputs;
    std::map<std::string, std::unique_ptr<BoundImage>> images;
    std::map<std::string, double> scalar_values;
    std::vector<std::string> buffer_names, scalar_names;
    std::vector<std::unique_ptr<BoundImage>> constants;
    uint64_t epoch = 0;
    int64_t steps = 0;
    size_t points = 0;
    size_t limit = 0;

    void compile(const std::vector<Halide::Func> &pipeline);
    void compile_stage(FuncData &func, Stage &stage, const Function &function, const Definition &definition,
                       bool is_update);
    void resolve(Resolved &code);
    BoundImage *image(const std::string &name);

    Value eval(Resolved &code, Frame &frame, int id, const Current *self);
    Value compute(Resolved &code, Frame &frame, const ExprNode &node, const Current *self);
    int64_t index(Resolved &code, Frame &frame, int id, const Current *self, bool &is_open);
    Value scalar(const ScalarRef &ref, const Type &type);
    Value read_image(Resolved &code, Frame &frame, const ExprNode &node, const Current *self);
    Value read_func(Resolved &code, Frame &frame, const ExprNode &node, const Current *self);

    /// The Tuple of `func` at `point` after its first `stage` definitions' updates.
    void values_after(FuncData &func, int stage, const int *point, Value *out);
    void pure_values(FuncData &func, const int *point, Value *out);
    void run_update(FuncData &func, int stage, const int *point, Slice *slice, Value *single);
    void count_point(size_t width) {
        points++;
        if ((points & 1023) == 0 && points * (width * sizeof(Value) + 32) > limit) {
            fail("K0804", fmt::format("the reference needs more than {} MiB", limit >> 20),
                 "check fewer outputs at a time, or a smaller workload");
        }
    }
};

// --- compiling -------------------------------------------------------------------------------------------

void Evaluator::State::compile(const std::vector<Halide::Func> &pipeline) {
    std::map<std::string, Function> all;
    for (const Halide::Func &f : pipeline) {
        for (const auto &[name, function] : Halide::Internal::find_transitive_calls(f.function())) {
            all.emplace(name, function);
        }
    }
    for (const auto &[name, function] : all) {
        auto func = std::make_unique<FuncData>();
        func->name = name;
        func->rank = function.dimensions();
        func->types = function.output_types();
        if (function.has_extern_definition()) {
            fail("K0801",
                 fmt::format("the reference evaluator cannot evaluate the extern stage `{}`",
                             unnumbered_name(name)),
                 "give `kiln check` a reference of your own");
        }
        if (func->rank > max_rank) {
            fail("K0801",
                 fmt::format("`{}` has {} dimensions, the reference evaluator knows {}",
                             unnumbered_name(name), func->rank, max_rank),
                 "fold dimensions that are always used together");
        }
        func->stages.resize(1 + function.updates().size());
        compile_stage(*func, func->stages[0], function, function.definition(), false);
        for (size_t u = 0; u < function.updates().size(); u++) {
            compile_stage(*func, func->stages[u + 1], function, function.update(static_cast<int>(u)), true);
        }
        const std::vector<ExprNode> &nodes = func->stages[0].code.program.nodes;
        bool reads_funcs =
            std::any_of(nodes.begin(), nodes.end(), [](const ExprNode &n) { return n.op == Op::FuncRead; });
        func->is_remembered = func->stages.size() > 1 || reads_funcs || nodes.size() > 8;
        funcs[name] = std::move(func);
    }
    for (auto &[name, func] : funcs) {
        for (Stage &stage : func->stages) {
            resolve(stage.code);
            resolve(stage.bounds);
        }
    }
    for (const Halide::Func &f : pipeline) {
        outputs.push_back(funcs.at(f.name()).get());
    }
    auto unique = [](std::vector<std::string> &names) {
        std::sort(names.begin(), names.end());
        names.erase(std::unique(names.begin(), names.end()), names.end());
    };
    unique(buffer_names);
    unique(scalar_names);
}

void Evaluator::State::compile_stage(FuncData &func, Stage &stage, const Function &function,
                                     const Definition &definition, bool is_update) {
    const std::vector<std::string> vars = function.args();
    std::vector<Expr> roots = definition.values();
    std::vector<std::string> rvars;
    std::vector<Expr> bounds;
    if (is_update) {
        for (int d = 0; d < func.rank; d++) {
            const auto *v = definition.args()[d].as<Halide::Internal::Variable>();
            if (v && !v->reduction_domain.defined() && v->name == vars[d]) {
                stage.pure_dims.push_back(d);
            } else {
                stage.other_dims.push_back(d);
                roots.push_back(definition.args()[d]);
            }
        }
        for (const auto &r : definition.schedule().rvars()) {
            rvars.push_back(r.var);
            bounds.push_back(r.min);
            bounds.push_back(r.extent);
        }
        stage.loops = static_cast<int>(rvars.size());
        if (definition.predicate().defined() && !Halide::Internal::is_const_one(definition.predicate())) {
            stage.has_predicate = true;
            roots.push_back(definition.predicate());
        }
    }
    stage.code.program = compile_program(roots, vars, rvars, is_update ? func.name : "");
    stage.bounds.program = compile_program(bounds, {}, {}, "");
    if (stage.other_dims.empty()) {
        stage.done = std::make_unique<PointTable>(func.rank, static_cast<int>(func.types.size()));
    }
}

BoundImage *Evaluator::State::image(const std::string &name) {
    std::unique_ptr<BoundImage> &slot = images[name];
    if (!slot) {
        slot = std::make_unique<BoundImage>();
        slot->name = name;
    }
    return slot.get();
}

void Evaluator::State::resolve(Resolved &code) {
    for (const std::string &name : code.program.funcs) {
        code.funcs.push_back(funcs.at(name).get());
    }
    for (const Program::Image &i : code.program.images) {
        if (!i.data.defined()) {
            code.images.push_back(image(i.name));
            buffer_names.push_back(i.name);
            continue;
        }
        auto constant = std::make_unique<BoundImage>();
        const halide_buffer_t *raw = i.data.raw_buffer();
        *constant = {true, i.data.type(), raw->host, {raw->dim, raw->dim + raw->dimensions}, i.name, i.data};
        code.images.push_back(constant.get());
        constants.push_back(std::move(constant));
    }
    for (const ScalarRef &s : code.program.scalars) {
        if (s.what == ScalarRef::What::Value) {
            scalar_names.push_back(s.name);
        }
    }
}

// --- walking ---------------------------------------------------------------------------------------------

Value Evaluator::State::eval(Resolved &code, Frame &frame, int id, const Current *self) {
    const ExprNode &node = code.program.nodes[id];
    if (!node.is_cached) {
        return compute(code, frame, node, self);
    }
    uint64_t now = frame.epochs[node.level];
    if (frame.stamps[id] != now) {
        frame.cache[id] = compute(code, frame, node, self);
        frame.stamps[id] = now;
    }
    return frame.cache[id];
}

Value Evaluator::State::compute(Resolved &code, Frame &frame, const ExprNode &node, const Current *self) {
    steps++;
    auto arg = [&](int i) { return eval(code, frame, node.args[i], self); };
    switch (node.op) {
    case Op::Constant:
        return node.constant;
    case Op::Variable:
        return int_value(node.type, frame.variables[node.index]);
    case Op::Scalar:
        return scalar(code.program.scalars[node.index], node.type);
    case Op::Add:
        return add(arg(0), arg(1), node.type);
    case Op::Sub:
        return subtract(arg(0), arg(1), node.type);
    case Op::Mul:
        return multiply(arg(0), arg(1), node.type);
    case Op::Div:
        return divide(arg(0), arg(1), node.type);
    case Op::Mod:
        return modulo(arg(0), arg(1), node.type);
    case Op::Min:
        return minimum(arg(0), arg(1), node.type, node.folds_itself);
    case Op::Max:
        return maximum(arg(0), arg(1), node.type, node.folds_itself);
    case Op::Compare:
        return compare(static_cast<Compare>(node.index), arg(0), arg(1), node.operand_type);
    case Op::And:
    case Op::Or: {
        bool decisive = node.op == Op::Or;
        Value a = arg(0);
        if (a.terms_error == 0 && (a.i != 0) == decisive) {
            return a;
        }
        Value b = arg(1);
        if (b.terms_error == 0 && (b.i != 0) == decisive) {
            return b;
        }
        Value out = int_value(node.type, decisive ? (a.i || b.i) : (a.i && b.i));
        out.terms_error = std::max(a.terms_error, b.terms_error);
        return out;
    }
    case Op::Not: {
        Value a = arg(0);
        a.i = !a.i;
        return a;
    }
    case Op::Select: {
        Value c = arg(0);
        if (c.terms_error == 0) {
            return arg(c.i ? 1 : 2);
        }
        return select(c, arg(1), arg(2), node.type);
    }
    case Op::Cast:
        return cast(arg(0), node.operand_type, node.type);
    case Op::Reinterpret:
        return reinterpret(arg(0), node.operand_type, node.type);
    case Op::Function:
        return apply_function(node.name.c_str(), arg(0), node.operand_type);
    case Op::Power:
        return power(arg(0), arg(1), node.type);
    case Op::Arctangent2:
        return arctangent2(arg(0), arg(1), node.type);
    case Op::IntegerOp:
        return integer_op(node.name.c_str(), arg(0), node.args.size() > 1 ? arg(1) : Value(),
                          node.operand_type, node.type);
    case Op::FuncRead:
        return read_func(code, frame, node, self);
    case Op::ImageRead:
        return read_image(code, frame, node, self);
    }
    return {};
}

int64_t Evaluator::State::index(Resolved &code, Frame &frame, int id, const Current *self, bool &is_open) {
    const ExprNode &node = code.program.nodes[id];
    if (node.op == Op::Variable) {
        return frame.variables[node.index];
    }
    if (node.op == Op::Constant) {
        return node.constant.i;
    }
    if (node.op == Op::Add || node.op == Op::Sub || node.op == Op::Mul) {
        int64_t a = index(code, frame, node.args[0], self, is_open);
        int64_t b = index(code, frame, node.args[1], self, is_open);
        return int_value(node.type, node.op == Op::Add ? a + b : node.op == Op::Sub ? a - b : a * b).i;
    }
    Value v = eval(code, frame, id, self);
    is_open = is_open || v.terms_error > 0;
    return v.i;
}

Value Evaluator::State::scalar(const ScalarRef &ref, const Type &type) {
    if (ref.what == ScalarRef::What::Value) {
        auto it = scalar_values.find(ref.name);
        if (it == scalar_values.end()) {
            fail("K0803", fmt::format("the scalar input `{}` has no value", ref.name),
                 "bind it before evaluating");
        }
        return type.is_float() ? float_value(round_to(it->second, type))
                               : int_value(type, static_cast<int64_t>(it->second));
    }
    auto it = images.find(ref.name);
    if (it == images.end() || !it->second->is_bound ||
        ref.dimension >= static_cast<int>(it->second->dims.size())) {
        fail("K0803",
             fmt::format("the buffer `{}`, whose dimension {} is asked for, is not bound", ref.name,
                         ref.dimension),
             "bind it before evaluating");
    }
    const halide_dimension_t &d = it->second->dims[ref.dimension];
    return int_value(type, ref.what == ScalarRef::What::Min      ? d.min
                           : ref.what == ScalarRef::What::Extent ? d.extent
                                                                 : d.stride);
}

Value Evaluator::State::read_image(Resolved &code, Frame &frame, const ExprNode &node, const Current *self) {
    const BoundImage &image = *code.images[node.index];
    if (!image.is_bound) {
        fail("K0803", fmt::format("the input `{}` is not bound", image.name), "bind it before evaluating");
    }
    int64_t offset = 0;
    bool is_open = false;
    for (size_t d = 0; d < node.args.size(); d++) {
        int64_t i = index(code, frame, node.args[d], self, is_open);
        const halide_dimension_t &dim = image.dims[d];
        if (i < dim.min || i >= int64_t(dim.min) + dim.extent) {
            fail("K0802",
                 fmt::format("the formula reads `{}` at {} in dimension {}, which spans {} to {}", image.name,
                             i, d, dim.min, int64_t(dim.min) + dim.extent - 1),
                 "give the input the extents that the outputs need");
        }
        offset += (i - dim.min) * dim.stride;
    }
    Value out = load_element(image.data, offset, image.type);
    if (is_open) {
        out.terms_error = std::numeric_limits<double>::infinity();
    }
    return out;
}

Value Evaluator::State::read_func(Resolved &code, Frame &frame, const ExprNode &node, const Current *self) {
    FuncData &func = *code.funcs[node.index];
    if (self && self->func == &func && self->single) {
        return self->single[node.value_index];
    }
    Point point{};
    bool is_open = false;
    for (size_t d = 0; d < node.args.size(); d++) {
        point[d] = static_cast<int>(index(code, frame, node.args[d], self, is_open));
    }
    std::array<Value, 8> small;
    std::vector<Value> large;
    Value *values = small.data();
    if (func.types.size() > small.size()) {
        large.resize(func.types.size());
        values = large.data();
    }
    const Value *current = self && self->func == &func ? self->slice->points.find(point.data()) : nullptr;
    if (current) {
        values[node.value_index] = current[node.value_index];
    } else {
        int stage = self && self->func == &func ? self->stage - 1 : static_cast<int>(func.stages.size()) - 1;
        values_after(func, stage, point.data(), values);
    }
    Value out = values[node.value_index];
    if (is_open) {
        out.terms_error = std::numeric_limits<double>::infinity();
    }
    return out;
}

// --- definitions -----------------------------------------------------------------------------------------

void Evaluator::State::pure_values(FuncData &func, const int *point, Value *out) {
    Resolved &code = func.stages[0].code;
    Walk walk(code, ++epoch);
    Frame &frame = walk.frame();
    std::copy(point, point + func.rank, frame.variables.begin());
    for (size_t v = 0; v < func.types.size(); v++) {
        out[v] = eval(code, frame, code.program.roots[v], nullptr);
    }
}

void Evaluator::State::values_after(FuncData &func, int stage, const int *point, Value *out) {
    size_t width = func.types.size();
    Stage &s = func.stages[stage];
    if (stage == 0 && (!func.is_remembered || func.stages.size() > 1)) {
        pure_values(func, point, out);
        return;
    }
    if (s.done) {
        if (const Value *known = s.done->find(point)) {
            std::copy(known, known + width, out);
            return;
        }
        if (stage == 0) {
            pure_values(func, point, out);
        } else {
            values_after(func, stage - 1, point, out);
            run_update(func, stage, point, nullptr, out);
        }
        // Values between two updates of one Func are used once.
        if (stage + 1 == static_cast<int>(func.stages.size())) {
            std::copy(out, out + width, s.done->insert(point));
            count_point(width);
        }
        return;
    }
    std::string key;
    for (int d : s.pure_dims) {
        key.append(reinterpret_cast<const char *>(&point[d]), sizeof(int));
    }
    auto it = s.slices.find(key);
    if (it == s.slices.end()) {
        auto slice = std::make_unique<Slice>(Slice{PointTable(func.rank, static_cast<int>(width))});
        run_update(func, stage, point, slice.get(), nullptr);
        it = s.slices.emplace(key, std::move(slice)).first;
    }
    if (const Value *known = it->second->points.find(point)) {
        std::copy(known, known + width, out);
    } else {
        values_after(func, stage - 1, point, out);
    }
}

void Evaluator::State::run_update(FuncData &func, int stage, const int *point, Slice *slice, Value *single) {
    Stage &s = func.stages[stage];
    size_t width = func.types.size();
    std::vector<int64_t> low(s.loops), high(s.loops);
    {
        Walk walk(s.bounds, ++epoch);
        const std::vector<int> &roots = s.bounds.program.roots;
        for (int r = 0; r < s.loops; r++) {
            low[r] = eval(s.bounds, walk.frame(), roots[2 * r], nullptr).i;
            high[r] = low[r] + eval(s.bounds, walk.frame(), roots[2 * r + 1], nullptr).i;
        }
    }
    for (int r = 0; r < s.loops; r++) {
        if (high[r] <= low[r]) {
            return;
        }
    }
    Walk walk(s.code, ++epoch);
    Frame &frame = walk.frame();
    std::copy(point, point + func.rank, frame.variables.begin());
    std::copy(low.begin(), low.end(), frame.variables.begin() + func.rank);
    Current self{&func, stage, slice, single};
    const std::vector<int> &roots = s.code.program.roots;
    std::vector<Value> next(width);
    Point target{};
    std::copy(point, point + func.rank, target.begin());
    int64_t *loops = frame.variables.data() + func.rank;
    for (;;) {
        Value allowed;
        if (s.has_predicate) {
            allowed = eval(s.code, frame, roots.back(), &self);
        }
        if (!s.has_predicate || allowed.i || allowed.terms_error > 0) {
            bool is_open = allowed.terms_error > 0;
            for (size_t i = 0; i < s.other_dims.size(); i++) {
                target[s.other_dims[i]] =
                    static_cast<int>(index(s.code, frame, roots[width + i], &self, is_open));
            }
            for (size_t v = 0; v < width; v++) {
                next[v] = eval(s.code, frame, roots[v], &self);
                if (is_open) {
                    next[v].terms_error = std::numeric_limits<double>::infinity();
                }
            }
            Value *place = single ? single : slice->points.insert(target.data());
            if (!single) {
                count_point(width);
            }
            std::copy(next.begin(), next.end(), place);
        }
        int r = 0;
        for (; r < s.loops; r++) {
            if (++loops[r] < high[r]) {
                break;
            }
            loops[r] = low[r];
        }
        if (r == s.loops) {
            break;
        }
        epoch++;
        std::fill(frame.epochs.begin(), frame.epochs.begin() + std::min<size_t>(r + 1, frame.epochs.size()),
                  epoch);
    }
}

// --- the public face -------------------------------------------------------------------------------------

Evaluator::Evaluator(const std::vector<Halide::Func> &outputs) : state_(std::make_unique<State>()) {
    state_->compile(outputs);
}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator &&) noexcept = default;
Evaluator &Evaluator::operator=(Evaluator &&) noexcept = default;

void Evaluator::bind(const std::string &name, const halide_buffer_t *buffer) {
    BoundImage &image = *state_->image(name);
    image.is_bound = true;
    image.type = Type(buffer->type);
    image.data = buffer->host;
    image.dims.assign(buffer->dim, buffer->dim + buffer->dimensions);
    forget();
}

void Evaluator::bind_scalar(const std::string &name, double value) {
    state_->scalar_values[name] = value;
    forget();
}

const std::vector<std::string> &Evaluator::buffers() const {
    return state_->buffer_names;
}
const std::vector<std::string> &Evaluator::scalars() const {
    return state_->scalar_names;
}
int Evaluator::output_count() const {
    return static_cast<int>(state_->outputs.size());
}
int Evaluator::output_rank(int output) const {
    return state_->outputs.at(output)->rank;
}
const std::vector<Type> &Evaluator::output_types(int output) const {
    return state_->outputs.at(output)->types;
}
int64_t Evaluator::steps() const {
    return state_->steps;
}

Value Evaluator::at(int output, int value_index, const std::vector<int> &point) {
    FuncData &func = *state_->outputs.at(output);
    state_->limit = memory_limit;
    std::vector<Value> values(func.types.size());
    Point p{};
    std::copy(point.begin(), point.end(), p.begin());
    state_->values_after(func, static_cast<int>(func.stages.size()) - 1, p.data(), values.data());
    return values.at(value_index);
}

void Evaluator::forget() {
    for (auto &[name, func] : state_->funcs) {
        for (Stage &stage : func->stages) {
            stage.slices.clear();
            if (stage.done) {
                stage.done->clear();
            }
        }
    }
    state_->points = 0;
}

size_t Evaluator::bytes() const {
    size_t total = 0;
    for (const auto &[name, func] : state_->funcs) {
        for (const Stage &stage : func->stages) {
            total += stage.done ? stage.done->bytes() : 0;
            for (const auto &[key, slice] : stage.slices) {
                total += slice->points.bytes();
            }
        }
    }
    return total;
}

} // namespace kiln
