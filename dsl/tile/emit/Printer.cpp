#include "dsl/tile/emit/Printer.h"

#include "dsl/tile/emit/ElementC.h"

#include <fmt/format.h>

#include <algorithm>

namespace kiln::tile {

using namespace Halide::Internal;

Printer::Printer(const Kernel &k, Dialect &dialect, const EmitOptions &options)
    : k_(k), dialect_(dialect), options_(options) {}

// ---- text

void Printer::line(const std::string &text) {
    const bool flush = !text.empty() && text[0] == '#';
    out_ += (flush || text.empty() ? "" : std::string(static_cast<size_t>(indent_) * 4, ' ')) + text + "\n";
}

void Printer::open(const std::string &head) {
    line(head.empty() ? "{" : head + " {");
    indent_++;
}

void Printer::close(const std::string &tail) {
    indent_--;
    line("}" + tail);
}

void Printer::otherwise() {
    indent_--;
    line("} else {");
    indent_++;
}

std::string Printer::apart(const std::function<void()> &print) {
    std::string before;
    before.swap(out_);
    print();
    before.swap(out_);
    return before;
}

std::string Printer::comment(const Stmt &s) const {
    const std::string tile = defines(s);
    if (tile.empty()) {
        return s.func;
    }
    std::string func = k_.tile(tile).func;
    func = func.empty() ? s.func : func;
    return func.empty() || func == tile ? tile : tile + ": " + func;
}

void Printer::no_form(const std::string &what, const std::string &why) const {
    refuse("K1153", fmt::format("{} has no form in a kernel: {}", what, why));
}

// ---- names

std::string Printer::id(const std::string &prefix, const std::string &name) {
    const std::string key = prefix + "/" + name;
    if (auto known = ids_.find(key); known != ids_.end()) {
        return known->second;
    }
    std::string c = prefix + name;
    for (char &x : c) {
        x = isalnum(static_cast<unsigned char>(x)) ? x : '_';
    }
    auto taken = [&](const std::string &n) {
        return std::any_of(ids_.begin(), ids_.end(), [&](const auto &i) { return i.second == n; });
    };
    std::string own = c;
    for (int i = 1; taken(own); i++) {
        own = c + "_" + std::to_string(i);
    }
    return ids_[key] = own;
}

std::string Printer::array(const std::string &tile) {
    const std::string &root = k_.root(tile);
    const Tile &t = k_.tile(tile), &r = k_.tile(root);
    if (packed(t) != packed(r) || t.type.bits() != r.type.bits() || t.type.is_float() != r.type.is_float()) {
        no_form(fmt::format("tile `{}`", tile),
                fmt::format("it shares registers with `{}` of another type", root));
    }
    if (t.registers.register_count() > r.registers.register_count()) {
        no_form(fmt::format("tile `{}`", tile),
                fmt::format("it shares registers with `{}`, which has fewer", root));
    }
    arrays_.insert(root);
    return id("t_", root);
}

void Printer::declare_arrays() {
    for (const std::string &root : arrays_) {
        const Tile &t = k_.tile(root);
        line(fmt::format("{} {}[{}];{}", packed(t) ? "u32" : dialect_.type(t.type), id("t_", root), words(t),
                         t.axes.empty() ? "" : " // " + t.registers.str()));
    }
    arrays_.clear();
}

// ---- parameters

std::string Printer::storage(Halide::Type t) const {
    return t.is_bool() ? "unsigned char" : dialect_.type(t);
}

std::string Printer::pointer(const std::string &view) {
    if (!k_.view(view)) {
        no_form(fmt::format("view `{}`", view), "the kernel has no view of that name");
    }
    const bool known =
        std::any_of(pointers_.begin(), pointers_.end(), [&](const auto &p) { return p.view == view; });
    if (!known) {
        KernelParam p;
        p.kind = KernelParam::Kind::Pointer;
        p.view = view;
        const View &v = *k_.view(view);
        if (!v.is_buffer()) {
            const bool counters = v.memory == View::Memory::Counters;
            p.kind = counters ? KernelParam::Kind::Counters : KernelParam::Kind::Workspace;
            p.value = make_const(Halide::Int(64), counters ? 1 : v.type.bytes());
            for (const Expr &e : v.extents) {
                p.value = p.value * Halide::cast<int64_t>(e);
            }
            p.value = simplify(p.value);
        }
        pointers_.push_back(p);
    }
    return id("p_", view);
}

bool Printer::is_loop(const std::string &variable) const {
    bool found =
        std::any_of(k_.grid.begin(), k_.grid.end(), [&](const GridLoop &g) { return g.name == variable; });
    walk(k_.body, [&](const Stmt &s) {
        const For *f = s.as<For>();
        found |= f && f->var == variable;
    });
    return found;
}

std::string Printer::value(const std::string &variable) {
    return value(variable, Variable::make(Halide::Int(32), variable));
}

std::string Printer::value(const std::string &name, const Expr &e) {
    const std::string c = id("", name);
    const bool known =
        std::any_of(values_.begin(), values_.end(), [&](const auto &p) { return p.view == c; });
    if (!known) {
        KernelParam p;
        p.kind = KernelParam::Kind::Value;
        p.view = c;
        p.value = e;
        values_.push_back(p);
    }
    return c;
}

std::string Printer::reciprocal(const std::string &name, const Expr &e) {
    const std::string c = id("r_", name);
    const bool known =
        std::any_of(reciprocals_.begin(), reciprocals_.end(), [&](const auto &p) { return p.view == c; });
    if (!known) {
        KernelParam p;
        p.kind = KernelParam::Kind::Reciprocal;
        p.view = c;
        p.value = e;
        reciprocals_.push_back(p);
    }
    return c;
}

void Printer::need(const std::string &view, int address, int stride) {
    EmittedKernel::Need &n = needs_[view];
    n.view = view;
    n.address_alignment = std::max(n.address_alignment, address);
    n.stride_alignment = std::max(n.stride_alignment, stride);
}

// ---- threads

std::string Printer::thread_digit(int below, int extent) const {
    const std::string t = below == 1 ? "thread" : fmt::format("thread / {}", below);
    if (below * extent >= crew_.threads()) {
        return t;
    }
    return fmt::format("{} % {}", t, extent);
}

std::string Printer::thread_offset(const std::string &axis, const RegisterLayout &l) {
    std::string e;
    int below = 1;
    for (const LayoutPart &p : l.threads) {
        if (p.axis == axis && p.extent > 1) {
            const std::string digit = thread_digit(below, p.extent);
            const bool bare = p.stride == 1;
            e += (e.empty() ? "" : " + ") + (bare ? digit : fmt::format("{} * {}", digit, p.stride));
        }
        below *= p.extent;
    }
    if (e.empty()) {
        return "";
    }
    for (const auto &[expr, name] : offsets_) {
        if (expr == e) {
            return name;
        }
    }
    std::string name = "at_" + axis;
    for (char &x : name) {
        x = isalnum(static_cast<unsigned char>(x)) ? x : '_';
    }
    auto taken = [&](const std::string &n) {
        return std::any_of(offsets_.begin(), offsets_.end(), [&](const auto &o) { return o.second == n; });
    };
    for (int i = 1; taken(name); i++) {
        name = fmt::format("at_{}_{}", axis, i);
    }
    offsets_.push_back({e, name});
    return name;
}

void Printer::declare_offsets() {
    for (const auto &[expr, name] : offsets_) {
        line(fmt::format("const int {} = {};", name, expr));
    }
    offsets_.clear();
}

// ---- memory

/// plan_shared counts the bytes that bring the start of shared memory to a boundary, too.
constexpr int start_alignment = 1024;

int Printer::planned_end() const {
    return k_.shared_bytes == 0 ? 0 : (k_.shared_bytes - start_alignment + 15) / 16 * 16;
}

std::string Printer::own_part(int bytes) const {
    return k_.plan.ping_pong && !crew_.whole ? fmt::format(" + wg * {}", bytes) : "";
}

std::string Printer::slot(const std::string &ring) {
    if (ring.empty() || k_.ring(ring)->depth == 1) {
        return "0";
    }
    slot_of_[ring] = true;
    return id("slot_", ring);
}

std::string Printer::shared_base(const Tile &t) {
    const std::string s = slot(t.ring);
    if (s == "0") {
        return std::to_string(t.offset);
    }
    return t.offset == 0 ? fmt::format("{} * {}", s, t.shared.bytes())
                         : fmt::format("{} + {} * {}", t.offset, s, t.shared.bytes());
}

std::string Printer::shared_at(const std::string &name, const SharedLayout &l, const std::string &inner,
                               const std::string &outer) {
    const std::string f = id("", name + "_at");
    if (helpers_.find(" " + f + "(") == std::string::npos) {
        const bool slabs = l.slab < l.inner_extent;
        const std::string row =
            slabs ? fmt::format("(inner / {} * {} + outer)", l.slab, l.outer_extent) : "outer";
        const std::string in = slabs ? fmt::format("inner % {}", l.slab) : "inner";
        const std::string at = fmt::format("{} * {} + {} * {}", row, l.pitch, in, l.element_bytes);
        const int chunks = l.swizzle / 16;
        helpers_ += fmt::format("// {}\nDEV u32 {}(u32 inner, u32 outer) {{\n", l.str(), f);
        helpers_ += chunks > 1 ? fmt::format("    const u32 at = {};\n    return at ^ (at >> 3 & {});\n}}\n",
                                             at, (chunks - 1) * 16)
                               : fmt::format("    return {};\n}}\n", at);
    }
    return fmt::format("{}({}, {})", f, inner, outer);
}

// ---- statements

void Printer::body(const Body &b) {
    for (const Stmt &s : b) {
        statement(s);
    }
}

std::string Printer::scalar(const Expr &e) {
    return ElementC(*this, nullptr).print(e);
}

void Printer::loop(const For &f) {
    const std::string i = id("i_", f.var);
    if (!worth_unrolling(f)) {
        line("#pragma unroll 1");
    }
    open(fmt::format("for (int {0} = {1}; {0} < {2}; {0}++)", i, scalar(f.lo), scalar(f.hi)));
    body(f.body);
    close();
}

void Printer::branch(const If &i) {
    open(fmt::format("if ({})", scalar(i.condition)));
    body(i.body);
    if (!i.otherwise.empty()) {
        otherwise();
        body(i.otherwise);
    }
    close();
}

void Printer::statement(const Stmt &s) {
    if (const For *f = s.as<For>()) {
        loop(*f);
    } else if (const If *i = s.as<If>()) {
        branch(*i);
    } else if (const TileLoop *t = s.as<TileLoop>()) {
        tile_loop(*t);
    } else if (const Map *m = s.as<Map>()) {
        line("// " + comment(s));
        const std::string asked = m->unless.defined() ? "!" + scalar(m->unless) : scales(*m);
        if (!asked.empty()) {
            open(fmt::format("if ({})", asked));
        }
        map(m->dst, m->value);
        if (!asked.empty()) {
            close();
        }
    } else if (const Fill *f = s.as<Fill>()) {
        map(f->dst, f->value);
    } else if (const Move *m = s.as<Move>()) {
        move(m->dst, m->src);
    } else if (const Reduce *r = s.as<Reduce>()) {
        line("// " + comment(s));
        reduce(*r, s.func);
    } else if (const LaneReduce *r = s.as<LaneReduce>()) {
        lane_reduce(*r);
    } else if (const Mma *m = s.as<Mma>()) {
        line("// " + comment(s));
        if (k_.product_kind(s.func) == MmaKind::Fma) {
            fma_product(*m);
        } else {
            product(*m, s.func);
        }
    } else if (const GlobalStore *g = s.as<GlobalStore>()) {
        line("// store to " + g->to.view);
        global_store(*g);
    } else if (const Copy *c = s.as<Copy>()) {
        line("// " + comment(s));
        auto plan = k_.plan.copies.find(c->from.view);
        const bool async = plan != k_.plan.copies.end() && plan->second.kind == CopyKind::CpAsync;
        plain_copy(c->dst, c->from, async ? CopyKind::CpAsync : CopyKind::Plain);
    } else if (const Load *l = s.as<Load>(); l && l->kind != CopyKind::Tma) {
        line("// " + comment(s));
        plain_copy(l->dst, l->from, l->kind);
    } else {
        no_form("a statement of `" + s.func + "`", "this language lacks the instruction");
    }
}

// ---- block tiles

/// Whether blocks have the more work the further along a loop they are: some loop inside takes more turns.
bool Printer::work_grows(const std::string &grid_loop) const {
    bool grows = false, other = false;
    walk(k_.body, [&](const Stmt &s) {
        const For *f = s.as<For>();
        if (!f || f->body.empty()) {
            return;
        }
        const Monotonic hi = is_monotonic(f->hi, grid_loop), lo = is_monotonic(f->lo, grid_loop);
        grows |= hi == Monotonic::Increasing && lo == Monotonic::Constant;
        other |= hi == Monotonic::Decreasing || hi == Monotonic::Unknown || lo == Monotonic::Unknown;
    });
    return grows && !other;
}

void Printer::tile_coordinates(const std::string &tile) {
    // Whole clusters are numbered; this block is one of its cluster's.
    std::vector<GridLoop> g = k_.grid;
    for (GridLoop &loop : g) {
        loop.extent = clusters_along(loop);
    }
    // The longest first: those that are short fill up what is left at the end.
    auto from_end = [&](size_t i) { return g[i].cluster == 1 && work_grows(g[i].name); };
    auto name = [&](size_t i) {
        return id(g[i].cluster > 1 ? "c_" : from_end(i) ? "from_end_" : "i_", g[i].name);
    };
    auto count = [&](size_t i) {
        return value((g[i].cluster > 1 ? "clusters_" : "n_") + g[i].name, g[i].extent);
    };
    if (g.empty()) {
        return;
    }
    cluster_coordinates(tile, g, name, count);
    std::string rank = "rank";
    for (size_t i = 0; i < g.size(); i++) {
        if (from_end(i)) {
            line(fmt::format("const int {} = {} - 1 - {};", id("i_", g[i].name), count(i), name(i)));
        }
        if (g[i].cluster > 1) {
            const bool last = i + 1 == g.size() || g[i + 1].cluster == 1;
            line(fmt::format("const int {} = {} * {} + {};", id("i_", g[i].name), name(i), g[i].cluster,
                             last ? rank : fmt::format("{} % {}", rank, g[i].cluster)));
            rank = fmt::format("{} / {}", rank, g[i].cluster);
        }
    }
}

Expr Printer::clusters_along(const GridLoop &g) {
    return g.cluster == 1 ? g.extent : simplify((g.extent + (g.cluster - 1)) / g.cluster);
}

void Printer::cluster_coordinates(const std::string &tile, const std::vector<GridLoop> &g,
                                  const std::function<std::string(size_t)> &name,
                                  const std::function<std::string(size_t)> &count) {
    if (g.size() == 1) {
        line(fmt::format("const int {} = {};", name(0), tile));
        return;
    }
    const std::string &by = dialect_.use("divide_by");
    std::string rest = tile;
    // The slowest loops first, down to the plane of the first two.
    for (size_t i = g.size() - 1; i >= 2; i--) {
        Expr below = 1;
        std::string text;
        for (size_t j = 0; j < i; j++) {
            below = below * g[j].extent;
            text += (text.empty() ? "" : "_") + g[j].name;
        }
        const std::string n = value("n_" + text, below), r = reciprocal(text, below), next = fresh("tile_");
        line(fmt::format("const int {} = {}({}, {});", name(i), by, rest, r));
        line(fmt::format("const u32 {} = {} - {} * {};", next, rest, name(i), n));
        rest = next;
    }
    // In groups of so many rows: down a group's rows, then the next column, so that both operands stay in the cache.
    size_t r = 1;
    for (const BlockDim &block : k_.plan.blocks) {
        if (block.var == k_.plan.rows && block.loop == g[0].name) {
            r = 0;
        }
    }
    const size_t c = 1 - r;
    const int rows = k_.plan.persistent / g[r].cluster;
    if (rows <= 1) {
        line(
            fmt::format("const int {} = {}({}, {});", name(1), by, rest, reciprocal(g[0].name, g[0].extent)));
        line(fmt::format("const int {} = {} - {} * {};", name(0), rest, name(1), count(0)));
        return;
    }
    const Expr left = g[r].extent % rows;
    const std::string per = value("per_group", g[c].extent * rows);
    line(fmt::format("const int group = {}({}, {}), in_group = {} - group * {};", by, rest,
                     reciprocal("per_group", g[c].extent * rows), rest, per));
    line(fmt::format("const int first_row = group * {}, left = {} - first_row;", rows, count(r)));
    line(fmt::format("const int {} = {}(in_group, left < {} ? {} : {});", name(c), by, rows,
                     reciprocal("last_group", select(left == 0, rows, left)),
                     reciprocal("group", Expr(rows))));
    line(fmt::format("const int {0} = first_row + in_group - {1} * (left < {2} ? left : {2});", name(r),
                     name(c), rows));
}

/// A number of blocks as one of clusters.
std::string Printer::of_clusters(const std::string &blocks) const {
    const int n = k_.cluster_blocks();
    return n == 1 ? blocks : fmt::format("{} / {}", blocks, n);
}

void Printer::tile_loop(const TileLoop &t) {
    std::set<std::string> outside;
    outside.swap(arrays_);
    const bool loops = k_.plan.persistent > 0;
    if (loops) {
        Expr tiles = 1;
        for (const GridLoop &g : k_.grid) {
            tiles = tiles * clusters_along(g);
        }
        line("int turn = 0;");
        open(fmt::format("for (u32 tile = {}; tile < {}; tile += {}, turn++)", of_clusters(block_index()),
                         value("tiles", tiles), of_clusters(block_count())));
    }
    tile_coordinates(loops ? "tile" : of_clusters(block_index()));
    const std::string inner = apart([&] { body(t.body); });
    if (!loops && k_.plan.ping_pong) {
        line("const int turn = 0;");
    }
    declare_arrays();
    out_ += inner;
    if (loops) {
        close();
    }
    arrays_.swap(outside);
}

EmittedKernel Printer::finish(const std::string &text, const std::vector<KernelParam> &first) const {
    EmittedKernel e;
    e.text = text;
    e.params = first;
    for (const auto *list : {&pointers_, &values_, &reciprocals_}) {
        for (KernelParam p : *list) {
            if (p.kind == KernelParam::Kind::Value || p.kind == KernelParam::Kind::Reciprocal) {
                p.view.clear(); // held the C name
            }
            e.params.push_back(std::move(p));
        }
    }
    e.grid = k_.grid;
    for (GridLoop &g : e.grid) {
        g.extent = simplify(clusters_along(g) * g.cluster);
    }
    e.persistent = k_.plan.persistent > 0;
    e.threads = k_.threads;
    const int bytes = planned_end() + extra_ + scratch_extra_;
    e.shared_bytes = bytes == 0 ? 0 : bytes + start_alignment;
    e.cluster = k_.cluster_blocks();
    e.launch_ahead = k_.plan.launch_ahead;
    for (const auto &[view, n] : needs_) {
        e.needs.push_back(n);
    }
    return e;
}

} // namespace kiln::tile
