// Loads and stores of views by ordinary instructions.
#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

std::string Printer::view_offset(const std::string &view, const std::vector<std::string> &index) {
    std::string s = index[0];
    const View *v = k_.view(view);
    Expr dense = v && !v->is_buffer() ? v->extents[0] : Expr();
    for (size_t d = 1; d < index.size(); d++) {
        if (index[d] != "0") {
            const std::string name = fmt::format("{}.stride.{}", view, d);
            const auto constant = dense.defined() ? as_const_int(dense) : std::nullopt;
            s += fmt::format(" + (i64){} * {}", index[d],
                             constant          ? std::to_string(*constant)
                             : dense.defined() ? value(name, dense)
                                               : value(name));
        }
        dense = dense.defined() ? simplify(dense * v->extents[d]) : dense;
    }
    return s;
}

Expr Printer::index_of(const ViewDim &d) const {
    return d.axis.empty() ? d.base : simplify(d.base + k_.axis_var(d.axis));
}

int Printer::neighbours(const std::string &view, const std::vector<Expr> &index, const std::string &along,
                        const RegisterLayout &over, int most, bool tested) {
    const View *v = k_.view(view);
    const bool own = v && !v->is_buffer(); // which begins at a boundary
    if (((!options_.vectors || k_.plan.direct) && !own && !tested) || !v || v->type.bits() > 32 ||
        index.empty()) {
        return 1;
    }
    const int bytes = v->type.is_bool() ? 1 : v->type.bytes();
    const std::string name = "%" + along;
    const Expr coordinate = Variable::make(Halide::Int(32), name);
    for (size_t d = 0; d < index.size(); d++) {
        const Expr step = simplify(replace_variable(index[d], name, coordinate + 1) - index[d]);
        if (!is_const(step, d == 0 ? 1 : 0)) {
            return 1;
        }
    }
    int count = 1;
    for (int n = 2; n <= most && n * bytes <= 16; n *= 2) {
        bool fits = most % n == 0;
        for (const LayoutPart &p : over.threads) {
            fits &= p.axis != along || p.extent == 1 || p.stride % n == 0;
        }
        for (size_t i = 1; i < over.registers.size(); i++) {
            const LayoutPart &p = over.registers[i];
            fits &= p.axis != along || p.extent == 1 || p.stride % n == 0;
        }
        if (const auto row = own ? as_const_int(v->extents[0]) : std::nullopt; own) {
            fits &= row && *row % n == 0;
        }
        const ModulusRemainder m = modulus_remainder(
            simplify(replace_variable(index[0], name, Variable::make(Halide::Int(32), "@run") * n)));
        if (fits && m.modulus % n == 0 && m.remainder % n == 0) {
            count = n;
        }
    }
    if (count * bytes < 4) {
        return 1;
    }
    if (count > 1 && !own && !tested) {
        need(view, count * bytes, index.size() > 1 ? count * bytes : 0);
    }
    return count;
}

void Printer::global_store(const GlobalStore &s) {
    const Tile &t = k_.tile(s.src);
    const Digits d(t.registers);
    ElementC c(*this, &d);
    std::vector<Expr> index;
    for (const ViewDim &v : s.to.dims) {
        index.push_back(index_of(v));
    }
    // Where threads hold copies, one of them stores.
    std::string mine;
    int below = 1;
    for (const LayoutPart &p : t.registers.threads) {
        if (p.axis.empty() && p.extent > 1) {
            mine += fmt::format("{}{} == 0", mine.empty() ? "" : " && ", thread_digit(below, p.extent));
        }
        below *= p.extent;
    }
    if (below < crew_.threads() && !k_.plan.ping_pong) {
        mine += fmt::format("{}thread < {}", mine.empty() ? "" : " && ", below);
    }
    if (!mine.empty()) {
        open("if (" + mine + ")");
    }
    const int bits = t.type.is_bool() ? 8 : t.type.bits();
    int count = 1;
    if (s.vector > 1 && d.run() > 1 && t.registers.registers[0].stride == 1) {
        count = neighbours(s.to.view, index, t.registers.registers[0].axis, t.registers,
                           std::min(s.vector, d.run()));
    }
    auto offset = [&](ElementC &at, const std::vector<Expr> &i) {
        std::vector<std::string> text;
        for (const Expr &x : i) {
            text.push_back(at.print(x));
        }
        return view_offset(s.to.view, text);
    };
    if (count == 1) {
        open_digits(d);
        const std::string test = c.inside(s.to.view, index, 0);
        line(fmt::format("{}{}[{}] = {};", test.empty() ? "" : "if (" + test + ") ", pointer(s.to.view),
                         offset(c, index), element(t, &d)));
        close_digits(d);
    } else {
        open_digits(d, 1);
        Digits start = d;
        start.names[0] = "";
        ElementC at(*this, &start);
        const int per = 32 / bits;
        for (int part = 0; part < d.run(); part += count) {
            const std::string w = fresh("w");
            std::string parts;
            for (int i = 0; i < count; i += per) {
                std::string whole;
                for (int j = 0; j < per; j++) {
                    if (packed(t) && j % 2 == 1) {
                        continue; // came with its neighbour
                    }
                    std::vector<int> f = d.own();
                    f[0] = 0;
                    const int constant = part + i + j;
                    std::string x;
                    if (packed(t)) {
                        for (int &y : f) {
                            y /= 2;
                        }
                        x = fmt::format("{}[{}]", array(t.name), start.sum(f, constant / 2));
                    } else {
                        x = fmt::format("{}[{}]", array(t.name), start.sum(f, constant));
                        x = bits == 32 ? dialect_.reinterpret(Halide::UInt(32), t.type, x)
                                       : fmt::format("((u32){} & {})", x, bits == 16 ? "0xffff" : "0xff");
                    }
                    whole += fmt::format("{}{}", j ? " | " : "",
                                         j == 0 ? x : fmt::format("{} << {}", x, j * bits));
                }
                parts += (parts.empty() ? "" : ", ") + whole;
            }
            line(fmt::format("const u32 {}[{}] = {{{}}};", w, count / per, parts));
            std::vector<Expr> here = index;
            here[0] = simplify(here[0] + part);
            const std::string left =
                k_.view(s.to.view)->is_buffer()
                    ? fmt::format("{} - {}", value(s.to.view + ".extent.0"), at.print(here[0]))
                    : std::to_string(count);
            const std::string test = at.inside(s.to.view, here, 1);
            line(fmt::format("{}({} + {}, {}, {});", dialect_.vector_store(bits, count), pointer(s.to.view),
                             offset(at, here), w,
                             test.empty() ? left : fmt::format("{} ? {} : 0", test, left)));
        }
        close_digits(d, 1);
    }
    if (!mine.empty()) {
        close();
    }
}

void Printer::async_copy(const std::string &, const std::string &, const std::string &, int, int) {
    no_form("an asynchronous copy", "this language lacks the instruction");
}

void Printer::plain_copy(const std::string &dst, const Region &from, CopyKind kind) {
    const Tile &t = k_.tile(dst);
    std::vector<Expr> args;
    for (const ViewDim &d : from.dims) {
        args.push_back(index_of(d));
    }
    const Expr read = Call::make(t.type, "view:" + from.view, args, Call::PureExtern);
    if (t.space == Space::Register) {
        map(dst, read);
        return;
    }
    // Runs of neighbours, dealt to the threads in turn.
    const SharedLayout &l = t.shared;
    const int bytes = l.element_bytes;
    const std::string in = "%" + l.inner;
    RegisterLayout any; // coordinates that advance by whole runs
    int run = 16 / bytes;
    while (run > 1 && (l.inner_extent % run != 0 || l.slab % run != 0 || l.pitch % (run * bytes) != 0)) {
        run /= 2;
    }
    any.registers = {{l.inner, run, 1}};
    const bool async = kind == CopyKind::CpAsync, tested = async && !options_.vectors;
    run = neighbours(from.view, args, l.inner, any, run, tested);
    if (run * bytes < 4 && run > 1) {
        run = 1;
    }
    const bool wide = run * bytes >= 4;
    if (tested && run > 1) { // any buffer: those that lie well are copied in runs
        open("if (" + is_aligned(from.view, run * bytes) + ")");
        copy_runs(t, from, run, wide);
        otherwise();
        copy_runs(t, from, 1, false);
        close();
    } else {
        copy_runs(t, from, run, async && wide);
    }
}

/// Whether the view's elements at multiples of so many bytes along dimension 0 lie at multiples of them.
std::string Printer::is_aligned(const std::string &view, int bytes) {
    std::string s = fmt::format("(u64){}", pointer(view));
    const View &v = *k_.view(view);
    for (int d = 1; d < v.rank; d++) {
        s += fmt::format(" | (u64){} * {}", value(fmt::format("{}.stride.{}", view, d)), v.type.bytes());
    }
    return fmt::format("(({}) & {}) == 0", s, bytes - 1);
}

/// The whole tile in runs of `run` neighbours, dealt to the threads in turn.
void Printer::copy_runs(const Tile &t, const Region &from, int run, bool async) {
    std::vector<Expr> args;
    for (const ViewDim &d : from.dims) {
        args.push_back(index_of(d));
    }
    const Expr read = Call::make(t.type, "view:" + from.view, args, Call::PureExtern);
    const SharedLayout &l = t.shared;
    const int bytes = l.element_bytes;
    const std::string in = "%" + l.inner;
    const int across = l.inner_extent / run, total = across * l.outer_extent;
    const std::string i = fresh("n");
    line("#pragma unroll 4");
    open(fmt::format("for (int {0} = thread; {0} < {1}; {0} += {2})", i, total,
                     crew_.single ? 1 : crew_.threads()));
    const std::string inner = fresh("c"), outer = fresh("r");
    line(fmt::format("const int {} = {} % {} * {}, {} = {} / {};", inner, i, across, run, outer, i, across));
    ElementC c(*this, nullptr);
    c.name(in, inner);
    c.name("%" + l.outer, outer);
    std::vector<std::string> at;
    for (const Expr &a : args) {
        at.push_back(c.print(a));
    }
    const std::string to = fmt::format("smem + {} + {}", shared_base(t), shared_at(t.name, l, inner, outer));
    if (run == 1) {
        const std::string type = storage(t.type);
        line(fmt::format("*{}({}) = {};", dialect_.shared_pointer(type), to, c.print(read)));
    } else {
        const std::string left = fmt::format("{} - {}", value(from.view + ".extent.0"), at[0]);
        std::string test = c.inside(from.view, args, 1);
        if (!c.nonnegative(args[0])) {
            test += fmt::format("{}{} >= 0", test.empty() ? "" : " && ", at[0]);
        }
        const std::string inside = test.empty() ? left : fmt::format("({} ? {} : 0)", test, left);
        const std::string source = fmt::format("{} + {}", pointer(from.view), view_offset(from.view, at));
        if (async) {
            async_copy(to, source, inside, run * bytes, bytes);
        } else {
            const std::string w = fresh("w");
            const int n = run * bytes / 4;
            line(fmt::format("u32 {}[{}];", w, n));
            line(fmt::format("{}({}, {}, {});", dialect_.vector_load(bytes * 8, run), w, source, inside));
            for (int x = 0; x < n; x++) {
                line(fmt::format("({}({}))[{}] = {}[{}];", dialect_.shared_pointer("u32"), to, x, w, x));
            }
        }
    }
    close();
}

} // namespace kiln::tile
