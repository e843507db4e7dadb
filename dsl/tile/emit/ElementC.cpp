#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;
using Halide::Expr;
using Halide::Type;

namespace {

bool is_view(const Call *c) {
    return c && c->name.compare(0, 5, "view:") == 0;
}

/// Reads that a loop over neighbours can load ahead: views and tiles in shared memory, each once.
class Reads : public IRGraphVisitor {
public:
    explicit Reads(const Kernel &k) : k_(k) {}
    std::vector<Expr> found;

private:
    const Kernel &k_;
    using IRGraphVisitor::visit;
    void add(const Expr &e) {
        for (const Expr &f : found) {
            if (equal(f, e)) {
                return;
            }
        }
        found.push_back(e);
    }
    void visit(const Call *op) override {
        const size_t before = found.size();
        IRGraphVisitor::visit(op);
        if (is_view(op) && found.size() == before) { // one whose index is read from memory stays where it is
            add(op);
        }
    }
    void visit(const Variable *op) override {
        auto t = k_.tiles.find(op->name);
        if (t != k_.tiles.end() && t->second.space == Space::Shared) {
            add(op);
        }
    }
};

/// Parts of a coordinate: where the thread's elements begin, and what the register adds, a constant once loops are unrolled.
const std::string of_thread = "@thread:", of_register = "@register:";

/// float(i + c) as float(i) + float(c) with the part of the register in c: one conversion for all elements of a thread, not
/// one for each, which costs as much as an exponential. Exact below 2^24; within two units of the last place above.
class ConvertOnce : public IRMutator {
public:
    explicit ConvertOnce(const Kernel &k) : k_(k) {}
    using IRMutator::visit;
    Expr visit(const Cast *op) override {
        Expr x = op->value;
        if (op->type != Halide::Float(32) || x.type().bits() != 32 || !x.type().is_int_or_uint()) {
            return IRMutator::visit(op);
        }
        if (const Call *c = x.as<Call>();
            c && c->is_intrinsic(Call::abs) && c->args[0].type() == Halide::Int(32)) {
            return Halide::abs(mutate(Cast::make(op->type, c->args[0])));
        }
        const std::set<std::string> axes = k_.axes_of(x);
        if (x.type() != Halide::Int(32) || axes.empty() || !k_.tiles_of(x).empty()) {
            return IRMutator::visit(op);
        }
        Expr begin = x, added = make_zero(x.type());
        for (const std::string &a : axes) {
            const Expr var = k_.axis_var(a), zero = replace_variable(x, "%" + a, 0);
            const Expr step = simplify(replace_variable(x, "%" + a, 1) - zero);
            if (!is_const(step) || !is_const_zero(simplify(x - zero - step * var))) {
                return IRMutator::visit(op);
            }
            begin = replace_variable(begin, "%" + a, Variable::make(x.type(), of_thread + a));
            added = added + step * Variable::make(x.type(), of_register + a);
        }
        return Cast::make(op->type, begin) + Cast::make(op->type, simplify(added));
    }

private:
    const Kernel &k_;
};

class Replace : public IRMutator {
public:
    Replace(const Expr &what, const Expr &by) : what_(what), by_(by) {}
    using IRMutator::mutate;
    Expr mutate(const Expr &e) override { return equal(e, what_) ? by_ : IRMutator::mutate(e); }

private:
    Expr what_, by_;
};

} // namespace

bool ElementC::nonnegative(const Expr &e) const {
    if (const Variable *v = e.as<Variable>()) {
        const bool minimum = v->name.find(".min.") != std::string::npos;
        return v->type.is_uint() || (!p_.k_.tiles.count(v->name) && v->name[0] != '@' && !minimum);
    }
    return ExprC::nonnegative(e);
}

std::string ElementC::variable(const Variable *v) {
    if (auto n = named_.find(v->name); n != named_.end()) {
        return n->second;
    }
    if (is_axis_var(v->name)) {
        return p_.coordinate(v->name.substr(1), digits_);
    }
    if (v->name[0] == '@' && v->name.compare(0, of_thread.size(), of_thread) == 0) {
        const std::string own = p_.thread_offset(v->name.substr(of_thread.size()), digits_->layout);
        return own.empty() ? "0" : own;
    }
    if (v->name[0] == '@' && v->name.compare(0, of_register.size(), of_register) == 0) {
        const std::string added = p_.register_offset(v->name.substr(of_register.size()), *digits_);
        return added.find(' ') == std::string::npos ? added : "(" + added + ")";
    }
    if (auto t = p_.k_.tiles.find(v->name); t != p_.k_.tiles.end()) {
        return t->second.space == Space::Shared ? load_tile(t->second) : p_.element(t->second, digits_);
    }
    if (v->name == "wg" || v->name == "turn") {
        return v->name;
    }
    if (v->name == "cluster.rank") {
        return "rank";
    }
    for (const char *part : {".extent.", ".stride.", ".min."}) {
        if (v->name.find(part) != std::string::npos) {
            return p_.value(v->name);
        }
    }
    // A loop, or else a scalar of the pipeline.
    return p_.is_loop(v->name) ? p_.id("i_", v->name) : p_.value("s_" + v->name, v);
}

std::string ElementC::inside(const std::string &view, const std::vector<Expr> &index, size_t from) {
    std::string test;
    if (!p_.k_.view(view)->is_buffer()) {
        return test; // made for whole tiles
    }
    for (size_t d = from; d < index.size(); d++) {
        if (p_.k_.axes_of(index[d]).empty() && !p_.k_.may_exceed_grid(index[d])) {
            continue; // the launch checks boxes; only the rest of a tile or of a cluster can be outside
        }
        const std::string extent = p_.value(fmt::format("{}.extent.{}", view, d)), i = print(index[d]);
        test += test.empty() ? "" : " && ";
        test += nonnegative(index[d]) ? fmt::format("{} < {}", i, extent)
                                      : fmt::format("(u32){} < (u32){}", i, extent);
    }
    return test;
}

std::string ElementC::view(const Call *c) {
    return load_view(c);
}

std::string ElementC::load_view(const Call *c) {
    const std::string view = c->name.substr(5);
    std::vector<std::string> at;
    for (const Expr &a : c->args) {
        at.push_back(print(a));
    }
    const std::string p = p_.pointer(view);
    std::string x = fmt::format("{}[{}]", p, p_.view_offset(view, at));
    if (c->type.is_bool()) {
        x = fmt::format("({} != 0)", x);
    }
    const std::string test = inside(view, c->args, 0);
    return test.empty()
               ? x
               : fmt::format("({} ? {} : {})", test, x, c->type.is_bool() ? "false" : literal(c->type, 0));
}

std::string ElementC::load_tile(const Tile &t) {
    if (!digits_) {
        p_.no_form(fmt::format("tile `{}`", t.name), "it is read where one value serves the whole block");
    }
    return fmt::format("*{}({})", p_.dialect_.shared_pointer("const " + p_.storage(t.type)),
                       p_.shared_element(t, *digits_));
}

std::string ElementC::part(Type t, const std::string &words) const {
    Dialect &d = p_.dialect_;
    if (t.bits() == 32) {
        const std::string w = words + "[e]";
        return t == Halide::UInt(32) ? w : d.reinterpret(t, Halide::UInt(32), w);
    }
    std::string x;
    if (t.bits() == 16) {
        x = fmt::format("{}({}[e / 2], e % 2)", d.use("half_of"), words);
    } else {
        x = fmt::format("{}({}[e / 4], e % 4)", d.use("byte_of"), words);
    }
    if (t.is_bool()) {
        return fmt::format("({} != 0)", x);
    }
    return fmt::format("({}){}", d.type(t), x);
}

int ElementC::run_of(const Expr &read) const {
    const LayoutPart &first = digits_->layout.registers[0];
    const int run = digits_->run(), bytes = read.type().is_bool() ? 1 : read.type().bytes();
    if (first.stride != 1 || bytes > 4) {
        return 1;
    }
    int count = run;
    if (const Call *c = read.as<Call>()) {
        count = p_.neighbours(c->name.substr(5), c->args, first.axis, digits_->layout, run);
    } else {
        const SharedLayout &l = p_.k_.tile(read.as<Variable>()->name).shared;
        count = l.inner == first.axis ? run : 1;
        auto fits = [&] {
            bool good = count * bytes <= 16 && l.slab % count == 0 && l.pitch % (count * bytes) == 0;
            for (const LayoutPart &p :
                 digits_->layout.threads) { // every run starts at a multiple of its length
                good &= p.axis != first.axis || p.extent == 1 || p.stride % count == 0;
            }
            return good;
        };
        while (count > 1 && !fits()) {
            count /= 2;
        }
    }
    if (const bool pair = count * bytes == 2; pair && !read.as<Call>()) {
        return count;
    }
    return count * bytes < 4 ? 1 : count;
}

/// Into `words`, `count` neighbours at a time.
void ElementC::load_run(const Expr &read, int count, const std::string &words) {
    Digits start = *digits_; // the coordinates of the run's first element
    start.names[0] = "";
    ElementC at(p_, &start);
    const Type t = read.type();
    const int bytes = t.is_bool() ? 1 : t.bytes(), run = digits_->run();
    p_.line(fmt::format("u32 {}[{}];", words, (run * bytes + 3) / 4));
    for (int part = 0; part < run; part += count) {
        if (const Call *c = read.as<Call>()) {
            const std::string view = c->name.substr(5);
            std::vector<Expr> index = c->args;
            index[0] = simplify(index[0] + part);
            std::vector<std::string> text;
            for (const Expr &i : index) {
                text.push_back(at.print(i));
            }
            const bool own = !p_.k_.view(view)->is_buffer();
            const std::string left =
                own ? std::to_string(count) : fmt::format("{} - {}", p_.value(view + ".extent.0"), text[0]);
            std::string test = at.inside(view, index, 1);
            if (!own && !at.nonnegative(index[0])) {
                test += fmt::format("{}{} >= 0", test.empty() ? "" : " && ", text[0]);
            }
            const std::string to = part == 0 ? words : fmt::format("{} + {}", words, part * bytes / 4);
            p_.line(fmt::format("{}({}, {} + {}, {});", p_.dialect_.vector_load(bytes * 8, count), to,
                                p_.pointer(view), p_.view_offset(view, text),
                                test.empty() ? left : fmt::format("{} ? {} : 0", test, left)));
            continue;
        }
        const Tile &tile = p_.k_.tile(read.as<Variable>()->name);
        const SharedLayout &l = tile.shared;
        std::string in = p_.coordinate(l.inner, &start);
        in = part == 0 ? in : fmt::format("{} + {}", in, part);
        const int n = std::max(1, count * bytes / 4);
        const std::string vector = n == 4               ? "uint4"
                                   : n == 2             ? "uint2"
                                   : count * bytes == 2 ? "u16"
                                                        : "u32",
                          v = p_.fresh("v");
        p_.line(fmt::format(
            "const {} {} = *{}({});", vector, v, p_.dialect_.shared_pointer("const " + vector),
            part == 0 ? p_.shared_element(tile, start) : p_.shared_element(tile, start, l.inner, in)));
        std::string copy;
        for (int i = 0; i < n; i++) {
            copy += fmt::format("{}{}[{}] = {}{};", i ? " " : "", words, part * bytes / 4 + i, v,
                                n == 1 ? std::string() : fmt::format(".{}", "xyzw"[i]));
        }
        p_.line(copy);
    }
}

Expr ElementC::open_loops(const Expr &whole) {
    Expr e = ConvertOnce(p_.k_).mutate(substitute_in_all_lets(whole));
    const std::vector<LayoutPart> &registers = digits_->layout.registers;
    struct Ahead {
        Expr read;
        size_t level; ///< the innermost loop that it depends on; as many as there are: none
        bool along;   ///< it changes along the run
    };
    std::vector<Ahead> all;
    Reads reads(p_.k_);
    e.accept(&reads);
    for (const Expr &r : reads.found) {
        const std::set<std::string> axes = p_.k_.axes_of(r);
        auto depends = [&](size_t i) { return registers[i].extent > 1 && axes.count(registers[i].axis) > 0; };
        size_t level = 1;
        while (level < registers.size() && !depends(level)) {
            level++;
        }
        all.push_back({r, std::max(level, size_t(1)), !registers.empty() && depends(0)});
    }
    for (size_t i = std::max(registers.size(), size_t(1)); i >= 1; i--) {
        if (i < registers.size() && !digits_->names[i].empty()) {
            p_.line("#pragma unroll");
            p_.open(fmt::format("for (int {0} = {1}; {0} < {2}; {0}++)", digits_->names[i], digits_->from[i],
                                digits_->to[i]));
        }
        for (const Ahead &a : all) {
            if (a.level != i) {
                continue;
            }
            const Type t = a.read.type();
            const int count = a.along ? run_of(a.read) : 1;
            const std::string name = p_.fresh("w");
            std::string is = name;
            if (count > 1) {
                load_run(a.read, count, name);
                is = part(t, name);
            } else if (!a.along) {
                Digits start = *digits_;
                if (!start.names.empty()) {
                    start.names[0] = "";
                }
                ElementC at(p_, &start);
                p_.line(fmt::format("const {} {} = {};", p_.dialect_.type(t), name, at.print(a.read)));
            } else if (a.level > 1) { // else it is read once anyway
                p_.line(fmt::format("{} {}[{}];", p_.dialect_.type(t), name, digits_->run()));
                p_.line("#pragma unroll");
                p_.line(fmt::format("for (int e = 0; e < {}; e++) {}[e] = {};", digits_->run(), name,
                                    print(a.read)));
                is = name + "[e]";
            } else {
                continue;
            }
            named_["@" + name] = is;
            e = Replace(a.read, Variable::make(t, "@" + name)).mutate(e);
        }
    }
    return e;
}

} // namespace kiln::tile
