// Maps, reductions and moves: loops over the registers of a tile.
#include "dsl/tile/emit/ElementC.h"
#include "dsl/tile/emit/RunEnd.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

/// Sums side by side: from so many neighbours on, and not more of them in all.
constexpr int shortest_run = 4, most_sums = 16;

bool is_power_of_two(int n) {
    return n > 0 && (n & (n - 1)) == 0;
}

} // namespace

// ---- digits

Digits::Digits(RegisterLayout l) : layout(std::move(l)) {
    for (size_t i = 0; i < layout.registers.size(); i++) {
        names.push_back(layout.registers[i].extent == 1 ? "" : i == 0 ? "e" : "i" + std::to_string(i));
        from.push_back(0);
        to.push_back(layout.registers[i].extent);
    }
}

void Digits::restrict(const std::string &axis, int stride, int first, int extent) {
    for (size_t i = 0; i < names.size(); i++) {
        const LayoutPart &p = layout.registers[i];
        if (p.axis == axis && p.stride == stride && p.extent > 1) {
            from[i] = first;
            to[i] = first + extent;
        }
    }
}

std::string Digits::sum(const std::vector<int> &factors, int constant) const {
    std::string s;
    for (size_t i = factors.size(); i-- > 0;) {
        if (factors[i] != 0 && !names[i].empty()) {
            s += (s.empty() ? "" : " + ") +
                 (factors[i] == 1 ? names[i] : fmt::format("{} * {}", names[i], factors[i]));
        }
    }
    if (s.empty()) {
        return std::to_string(constant);
    }
    return constant == 0 ? s : fmt::format("{} {} {}", s, constant < 0 ? "-" : "+", std::abs(constant));
}

std::vector<int> Digits::own() const {
    std::vector<int> f;
    int below = 1;
    for (size_t i = 0; i < from.size(); i++) {
        f.push_back(below);
        below *= to[i] - from[i];
    }
    return f;
}

int Digits::own_start() const {
    const std::vector<int> f = own();
    int start = 0;
    for (size_t i = 0; i < f.size(); i++) {
        start -= f[i] * from[i];
    }
    return start;
}

void Printer::open_digits(const Digits &d, size_t from) {
    for (size_t i = d.names.size(); i-- > from;) {
        if (!d.names[i].empty()) {
            line("#pragma unroll");
            open(fmt::format("for (int {0} = {1}; {0} < {2}; {0}++)", d.names[i], d.from[i], d.to[i]));
        }
    }
}

void Printer::close_digits(const Digits &d, size_t from) {
    for (size_t i = d.names.size(); i-- > from;) {
        if (!d.names[i].empty()) {
            close();
        }
    }
}

// ---- where an element is

bool Printer::packed(const Tile &t) const {
    return t.space == Space::Register && t.type.bits() == 16 && !t.registers.registers.empty() &&
           t.registers.registers[0].extent % 2 == 0;
}

int Printer::words(const Tile &t) const {
    return packed(t) ? t.registers.register_count() / 2 : t.registers.register_count();
}

std::vector<int> Printer::factors(const Tile &t, const RegisterLayout &over) const {
    const RegisterLayout &own = t.registers;
    auto offsets = [&](const RegisterLayout &l, int thread, int reg) {
        std::vector<int> at;
        for (const std::string &a : t.axes) {
            at.push_back(l.coordinate(a, thread, reg));
        }
        return at;
    };
    for (const std::string &a : t.axes) {
        if (!over.has(a) && own.has(a)) {
            no_form(fmt::format("tile `{}`", t.name),
                    fmt::format("it is read where there is no coordinate along its axis `{}`", a));
        }
    }
    std::map<std::vector<int>, int> at;
    for (int r = 0; r < own.register_count(); r++) {
        at.emplace(offsets(own, 0, r), r);
    }
    std::vector<int> f;
    int below = 1;
    bool good = true;
    auto number = [&](int r) {
        auto found = at.find(offsets(over, 0, r));
        good &= found != at.end();
        return found == at.end() ? 0 : found->second;
    };
    for (const LayoutPart &p : over.registers) {
        f.push_back(p.extent > 1 ? number(below) : 0);
        below *= p.extent;
    }
    for (int r = 0; good && r < over.register_count(); r++) {
        int sum = 0, rest = r;
        for (size_t i = 0; i < f.size(); i++) {
            sum += rest % over.registers[i].extent * f[i];
            rest /= over.registers[i].extent;
        }
        good &= number(r) == sum;
    }
    for (int thread = 0; good && thread < std::max(over.thread_count(), own.thread_count()); thread++) {
        good &= offsets(own, thread, 0) == offsets(over, thread, 0);
    }
    if (!good) {
        no_form(
            fmt::format("tile `{}`", t.name),
            fmt::format("its layout {} is not that of the values that read it, {}", own.str(), over.str()));
    }
    return f;
}

std::string Printer::coordinate(const std::string &axis, const Digits *d) {
    if (!d) {
        no_form(fmt::format("axis `{}`", axis), "it stands where one value serves the whole block");
    }
    std::string s = thread_offset(axis, d->layout);
    if (const std::string added = register_offset(axis, *d); added != "0") {
        s += (s.empty() ? "" : " + ") + added;
    }
    if (s.empty() && k_.axes.at(axis) > 1) {
        no_form(fmt::format("axis `{}`", axis), fmt::format("the layout {} lacks it", d->layout.str()));
    }
    return s.empty() ? "0" : s.find(' ') == std::string::npos ? s : "(" + s + ")";
}

std::string Printer::register_offset(const std::string &axis, const Digits &d) {
    std::string s;
    for (size_t i = d.names.size(); i-- > 0;) {
        const LayoutPart &p = d.layout.registers[i];
        if (p.axis == axis && !d.names[i].empty()) {
            s += (s.empty() ? "" : " + ") +
                 (p.stride == 1 ? d.names[i] : fmt::format("{} * {}", d.names[i], p.stride));
        }
    }
    return s.empty() ? "0" : s;
}

std::string Printer::word(const Tile &t, const Digits &d) {
    std::vector<int> f = factors(t, d.layout);
    if (packed(t)) {
        for (int &x : f) {
            x /= 2;
        }
    }
    return fmt::format("{}[{}]", array(t.name), d.sum(f));
}

std::string Printer::element(const Tile &t, const Digits *d) {
    const std::string a = array(t.name);
    if (!d) {
        if (t.registers.register_count() != 1) {
            no_form(fmt::format("tile `{}`", t.name), "it is read where one value serves the whole block");
        }
        return a + "[0]";
    }
    const std::vector<int> f = factors(t, d->layout);
    if (!packed(t)) {
        return fmt::format("{}[{}]", a, d->sum(f));
    }
    // Where only the first digit tells the halves apart the text can say so.
    bool simple = !f.empty() && f[0] == 1 && d->run() == 2;
    std::vector<int> half(f.size());
    for (size_t i = 1; i < f.size(); i++) {
        simple &= f[i] % 2 == 0;
        half[i] = f[i] / 2;
    }
    const std::string bits =
        simple ? fmt::format("{}({}[{}], e)", dialect_.use("half_of"), a, d->sum(half))
               : fmt::format("{0}({1}[({2}) / 2], ({2}) % 2)", dialect_.use("half_of"), a, d->sum(f));
    return is_half(t.type) || t.type.is_uint() ? bits : fmt::format("({}){}", dialect_.type(t.type), bits);
}

// ---- maps

void Printer::map(const std::string &dst, const Expr &whole) {
    const Tile &t = k_.tile(dst);
    if (t.space != Space::Register) {
        no_form(fmt::format("tile `{}`", dst), "a map into shared memory");
    }
    compute(array(dst), t, Digits(t.registers), whole);
}

std::string Printer::scales(const Map &m) {
    const Mul *product = m.seldom ? m.value.as<Mul>() : nullptr;
    for (int i = 0; product && i < 2; i++) {
        const Variable *scaled = (i ? product->b : product->a).as<Variable>(),
                       *factor = (i ? product->a : product->b).as<Variable>();
        if (!scaled || !factor || !k_.tiles.count(scaled->name) || !k_.tiles.count(factor->name) ||
            k_.root(scaled->name) != k_.root(m.dst)) {
            continue;
        }
        std::string any;
        for (int e = 0; e < words(k_.tile(factor->name)); e++) {
            any += fmt::format("{}{}[{}] != 1.0f", any.empty() ? "" : " || ", array(factor->name), e);
        }
        return any_lane(any);
    }
    return "";
}

void Printer::by_ends(const Expr &whole, const Digits &d,
                      const std::function<void(const Expr &, bool by_runs)> &print) {
    const Expr value = substitute_in_all_lets(whole);
    const auto end = run_end(value, d);
    if (!end) {
        print(value, false);
        return;
    }
    open(fmt::format("if ({})", scalar(simplify(end->limit % d.run()) == 0)));
    print(value, true);
    otherwise();
    print(value, false);
    close();
}

void Printer::run(const Expr &value, const Digits &d, bool by_runs,
                  const std::function<void(const Expr &)> &print) {
    const auto end = by_runs ? run_end(value, d) : std::nullopt;
    auto elements = [&](const Expr &e) {
        if (d.run() > 1) {
            line("#pragma unroll");
            open(fmt::format("for (int e = 0; e < {}; e++)", d.run()));
        }
        print(e);
        if (d.run() > 1) {
            close();
        }
    };
    if (!end) {
        elements(value);
        return;
    }
    Digits first = d;
    first.names[0] = "";
    const Expr before = k_.axis_var(d.layout.registers[0].axis) < end->limit;
    open(fmt::format("if ({})", ElementC(*this, &first).print(before)));
    elements(end->decided(value, true));
    const Expr behind = end->decided(value, false);
    if (!apart([&] { print(behind); }).empty()) {
        otherwise();
        elements(behind);
    }
    close();
}

/// Only where runs begin at multiples of their length.
std::optional<RunEnd> Printer::run_end(const Expr &value, const Digits &d) const {
    if (d.run() < shortest_run || d.layout.registers[0].stride != 1) {
        return std::nullopt;
    }
    const std::string axis = d.layout.registers[0].axis;
    auto splits = [&](const LayoutPart &p) {
        return p.axis == axis && p.extent > 1 && p.stride % d.run() != 0;
    };
    const std::vector<LayoutPart> &r = d.layout.registers, &t = d.layout.threads;
    const bool aligned =
        std::none_of(t.begin(), t.end(), splits) && std::none_of(r.begin() + 1, r.end(), splits);
    return aligned ? find_run_end(k_, value, axis) : std::nullopt;
}

void Printer::compute(const std::string &to, const Tile &t, const Digits &d, const Expr &whole) {
    by_ends(whole, d, [&](const Expr &value, bool by_runs) { compute_tile(to, t, d, value, by_runs); });
}

void Printer::compute_tile(const std::string &to, const Tile &t, const Digits &d, const Expr &whole,
                           bool by_runs) {
    ElementC c(*this, &d);
    Expr value = c.open_loops(whole);
    auto declare = [&](const std::string &what, const std::string &is) { line(what + " = " + is + ";"); };
    const Cast *rounding = value.as<Cast>();
    const bool halves = packed(t);
    const bool rounded = halves && is_half(t.type) && rounding && rounding->value.type() == Halide::Float(32);
    const int run = d.run();
    const int start = d.own_start();
    std::string own = fmt::format("{}[{}]", to, d.sum(d.own(), start));
    const std::string values = halves ? fresh("v") : "";
    if (halves) { // the run's values first, then two at a time into a register
        line(fmt::format("{} {}[{}];", rounded ? "float" : "u16", values, run));
        own = values + "[e]";
        value = rounded ? rounding->value : value;
    }
    this->run(value, d, by_runs, [&](const Expr &of_run) {
        const std::string result = c.print_shared(of_run, declare);
        line(fmt::format("{} = {};", own, result));
    });
    if (halves) {
        std::vector<int> f = d.own();
        f[0] = 0;
        for (int &x : f) {
            x /= 2;
        }
        for (int e = 0; e < run; e += 2) {
            const std::string low = fmt::format("{}[{}]", values, e),
                              high = fmt::format("{}[{}]", values, e + 1);
            line(fmt::format("{}[{}] = {};", to, d.sum(f, e / 2 + start / 2),
                             rounded ? dialect_.pack(t.type, low, high)
                                     : fmt::format("{} | (u32){} << 16", low, high)));
        }
    }
    close_digits(d, 1);
}

void Printer::move(const std::string &dst, const std::string &src) {
    const Tile &to = k_.tile(dst), &from = k_.tile(src);
    if (k_.root(dst) == k_.root(src)) {
        return;
    }
    if (!(to.registers == from.registers) || packed(to) != packed(from)) {
        map(dst, Variable::make(from.type, src));
        return;
    }
    line("#pragma unroll");
    line(fmt::format("for (int i = 0; i < {}; i++) {}[i] = {}[i];", words(to), array(dst), array(src)));
}

// ---- reductions

std::string Printer::combine(ReduceOp op, Halide::Type type, const std::string &a, const std::string &b) {
    ElementC c(*this, nullptr);
    c.name("@a", a);
    c.name("@b", b);
    return c.print(reduce_combine(op, Variable::make(type, "@a"), Variable::make(type, "@b")));
}

void Printer::reduce(const Reduce &r, const std::string &func) {
    const Tile &t = k_.tile(r.dst);
    if (t.type.bits() < 32) {
        no_form(fmt::format("the reduction in `{}`", func), "it accumulates in less than 32 bits");
    }
    RegisterLayout over = r.over;
    if (over.threads.empty() && over.registers.empty()) { // as the tile that has the axis
        for (const std::string &x : k_.tiles_of(r.value)) {
            if (k_.tile(x).space == Space::Register && k_.tile(x).registers.has(r.axis)) {
                over = k_.tile(x).registers;
            }
        }
    }
    const Digits d(over);
    const std::string to = array(r.dst);
    // Neighbours that a thread holds are added up side by side, so that one sum does not wait for another.
    const bool apart =
        d.run() >= shortest_run && over.registers[0].axis == r.axis && words(t) * d.run() <= most_sums;
    const std::string parts = apart ? fresh("parts") : to;
    const int sums = words(t) * (apart ? d.run() : 1);
    if (apart) {
        line(fmt::format("{} {}[{}];", dialect_.type(t.type), parts, sums));
    }
    line("#pragma unroll");
    line(fmt::format("for (int i = 0; i < {}; i++) {}[i] = {};", sums, parts,
                     scalar(reduce_identity(r.op, t.type))));
    const std::string sum = apart ? fmt::format("{}[({}) * {} + e]", parts, d.sum(factors(t, over)), d.run())
                                  : fmt::format("{}[{}]", to, d.sum(factors(t, over)));
    by_ends(r.value, d, [&](const Expr &value, bool by_runs) {
        // Two neighbours meet first: the chain of what depends on one another is half as long.
        const bool by_twos = !apart && d.run() == 2 && over.registers[0].axis == r.axis;
        reduce_registers(r, d, value, sum, by_twos, by_runs);
    });
    if (apart) {
        line("#pragma unroll");
        open(fmt::format("for (int i = 0; i < {}; i++)", words(t)));
        const std::string all = fmt::format("{}[i * {}]", parts, d.run()),
                          next = fmt::format("{}[i * {} + e]", parts, d.run());
        line("#pragma unroll");
        line(fmt::format("for (int e = 1; e < {}; e++) {} = {};", d.run(), all,
                         combine(r.op, t.type, all, next)));
        line(fmt::format("{}[i] = {};", to, all));
        close();
    }
    if (!t.partial) {
        combine_threads(to, t, r.op, over, [&](const LayoutPart &p) { return p.axis == r.axis; });
    }
    if (r.blocks > 1) {
        combine_blocks(to, t, r.op, r.blocks);
    }
}

void Printer::reduce_registers(const Reduce &r, const Digits &d, const Expr &whole, const std::string &sum,
                               bool by_twos, bool by_runs) {
    const Halide::Type type = k_.tile(r.dst).type;
    ElementC c(*this, &d);
    const Expr value = c.open_loops(whole);
    const std::string two = by_twos ? fresh("two") : "";
    if (by_twos) {
        line(fmt::format("{} {}[2];", dialect_.type(type), two));
    }
    run(value, d, by_runs, [&](const Expr &of_run) {
        if (equal(of_run, reduce_identity(r.op, of_run.type()))) {
            return; // behind the end
        }
        const std::string x = c.print_shared(
            of_run, [&](const std::string &what, const std::string &is) { line(what + " = " + is + ";"); });
        line(by_twos ? fmt::format("{}[e] = {};", two, x)
                     : fmt::format("{} = {};", sum, combine(r.op, type, sum, x)));
    });
    if (by_twos) {
        const std::string both = combine(r.op, type, two + "[0]", two + "[1]");
        line(fmt::format("{} = {};", sum, combine(r.op, type, sum, both)));
    }
    close_digits(d, 1);
}

void Printer::combine_blocks(const std::string &, const Tile &t, ReduceOp, int) {
    no_form(fmt::format("the reduction of `{}` over a cluster", t.func), "this language knows no clusters");
}

void Printer::lane_reduce(const LaneReduce &r) {
    move(r.dst, r.src);
    const Tile &t = k_.tile(r.dst);
    combine_threads(array(r.dst), t, r.op, k_.tile(r.src).registers,
                    [](const LayoutPart &p) { return p.axis.empty(); });
}

void Printer::combine_threads(const std::string &array, const Tile &t, ReduceOp op,
                              const RegisterLayout &over,
                              const std::function<bool(const LayoutPart &)> &which) {
    constexpr int warp = 32;
    const int count = words(t);
    std::vector<int> masks;
    std::string slot = "0", cross = "", first;
    int below = 1, slots = 1, parts = 1;
    const bool shuffles = !shuffle_xor("x", 1).empty();
    for (const LayoutPart &p : over.threads) {
        const int lanes =
            !shuffles ? 1 : std::max(1, std::min(p.extent, warp / below)); // of this digit within a warp
        if (which(p) && p.extent > 1) {
            if (!is_power_of_two(lanes)) {
                no_form("a reduction", fmt::format("over {} lanes", lanes));
            }
            for (int m = below; m < below * lanes; m *= 2) {
                masks.push_back(m);
            }
            if (lanes > 1) {
                first += fmt::format("{}{} == 0", first.empty() ? "" : " && ", thread_digit(below, lanes));
            }
            if (p.extent > lanes) {
                cross += fmt::format("{}{} * {}", cross.empty() ? "" : " + ",
                                     thread_digit(below * lanes, p.extent / lanes), parts);
                parts *= p.extent / lanes;
            }
        } else if (p.axis.empty() && p.extent > 1) { // copies: one of them writes
            first += fmt::format("{}{} == 0", first.empty() ? "" : " && ", thread_digit(below, p.extent));
        } else if (p.extent > 1) {
            slot += fmt::format(" + {} * {}", thread_digit(below, p.extent), slots);
            slots *= p.extent;
        }
        below *= p.extent;
    }
    if (!masks.empty()) {
        line("#pragma unroll");
        open(fmt::format("for (int i = 0; i < {}; i++)", count));
        for (int m : masks) {
            const std::string x = array + "[i]";
            line(fmt::format("{} = {};", x, combine(op, t.type, x, shuffle_xor(x, m))));
        }
        close();
    }
    if (parts == 1) {
        return;
    }
    const int bytes = count * parts * slots * t.type.bytes();
    const int all_bytes = bytes * (own_part(1).empty() ? 1 : crew_.warpgroups);
    int at = k_.scratch;
    if (all_bytes > k_.scratch_bytes) {
        scratch_extra_ = std::max(scratch_extra_, (all_bytes + 15) / 16 * 16);
        at = planned_end() + extra_;
    }
    const std::string type = dialect_.type(t.type), mine = fresh("part"), share = fresh("shared");
    open("");
    line(fmt::format("SHARED {} *{} = {}(smem + {}{});", type, share, dialect_.shared_pointer(type), at,
                     own_part(bytes)));
    line(fmt::format("const int {} = {}, slot = {};", mine, cross, slot));
    barrier();
    line(fmt::format("{}for (int i = 0; i < {}; i++) {}[(i * {} + {}) * {} + slot] = {}[i];",
                     first.empty() ? "" : "if (" + first + ") ", count, share, parts, mine, slots, array));
    barrier();
    line("#pragma unroll");
    open(fmt::format("for (int i = 0; i < {}; i++)", count));
    line(fmt::format("{} all = {}[i * {} + slot];", type, share, parts * slots));
    line("#pragma unroll");
    line(fmt::format(
        "for (int p = 1; p < {}; p++) all = {};", parts,
        combine(op, t.type, "all", fmt::format("{}[(i * {} + p) * {} + slot]", share, parts, slots))));
    line(fmt::format("{}[i] = all;", array));
    close();
    close();
}

} // namespace kiln::tile
