#include "dsl/tile/ir/ParseExpr.h"
#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

namespace kiln::tile {

namespace {

class Parser : public ExprParser {
public:
    Parser(std::vector<Token> tokens, const std::string &file) : ExprParser(std::move(tokens), file, k_) {}

    Kernel run() {
        collect_types();
        expect_word("kernel");
        k_.name = name("the kernel's name");
        expect("{");
        while (!next().is("}")) {
            header();
        }
        take();
        if (next().kind != Token::Kind::End) {
            unexpected("the end of the text");
        }
        for (const std::string &loop : loops_) {
            k_.fresh(loop);
        }
        return std::move(k_);
    }

private:
    Kernel k_;
    std::map<std::string, RegisterLayout> registers_;
    std::map<std::string, SharedLayout> shared_;
    std::set<std::string> declared_, loops_;

    /// Types of tiles and views must be known where an Expr reads them, and the final IR reads some before the text
    /// that defines them.
    void collect_types() {
        for (size_t i = 0; i + 3 < tokens_.size(); i++) {
            const Token &t = tokens_[i];
            if (t.kind == Token::Kind::Name && tokens_[i + 1].is(":") && tokens_[i + 3].is("[")) {
                if (auto type = type_named(tokens_[i + 2].text)) {
                    Tile &tile = k_.tiles[t.text];
                    tile.name = t.text;
                    tile.type = *type;
                }
            }
        }
    }

    void header() {
        const Token t = next();
        const std::string word = name("a line of the kernel");
        if (word == "axes") {
            do {
                std::string axis = name("an axis");
                expect(":");
                k_.axes[axis] = integer("its extent");
            } while (accept(","));
        } else if (word == "rows") {
            k_.row_axis = name("an axis");
        } else if (word == "input" || word == "output") {
            View v;
            v.is_output = word == "output";
            v.name = name("a view");
            expect(":");
            v.type = type();
            v.rank = numbered("rank");
            k_.views.push_back(v);
        } else if (word == "workspace" || word == "counters") {
            View v;
            v.memory = word == "workspace" ? View::Memory::Workspace : View::Memory::Counters;
            v.name = name("a view");
            expect(":");
            v.type = type();
            expect_word("extents");
            do {
                v.extents.push_back(expr());
            } while (accept(","));
            v.rank = static_cast<int>(v.extents.size());
            k_.views.push_back(v);
        } else if (word == "grid") {
            std::string loop = name("a loop");
            expect(":");
            GridLoop g{loop, expr()};
            g.cluster = accept_word("cluster") ? integer("a number of blocks") : 1;
            k_.grid.push_back(g);
        } else if (word == "condition") {
            k_.conditions.push_back(expr());
        } else if (word == "remark") {
            if (next().kind != Token::Kind::String) {
                unexpected("a string");
            }
            k_.remarks.push_back(take().text);
        } else if (word == "plan") {
            expect("{");
            while (!next().is("}")) {
                plan();
            }
            take();
        } else if (word == "layout") {
            layout();
        } else if (word == "ring") {
            ring();
        } else if (word == "threads") {
            k_.threads = integer("a number of threads");
        } else if (word == "shared") {
            k_.shared_bytes = integer("a number of bytes");
        } else if (word == "staging") {
            k_.staging = integer("a byte");
            k_.staging_bytes = numbered("bytes");
        } else if (word == "scratch") {
            k_.scratch = integer("a byte");
            k_.scratch_bytes = numbered("bytes");
        } else if (word == "tile") {
            declare();
        } else if (word == "body") {
            k_.body = body();
        } else {
            fail("K1161", fmt::format("expected a line of the kernel, found {}", t.words()), t.span,
                 {"lines are axes, rows, input, output, grid, condition, remark, plan, layout, ring, "
                  "threads, shared, "
                  "staging, scratch, tile and body"});
        }
    }

    int numbered(const char *word) {
        expect_word(word);
        return integer("a number");
    }

    std::vector<std::string> names(const char *what) {
        std::vector<std::string> all;
        do {
            all.push_back(name(what));
        } while (accept(","));
        return all;
    }

    template<typename E>
    E one_of(const std::vector<std::pair<const char *, E>> &choices) {
        std::string all;
        for (const auto &[word, value] : choices) {
            if (accept_word(word)) {
                return value;
            }
            all += fmt::format("{}`{}`", all.empty() ? "" : ", ", word);
        }
        unexpected("one of " + all);
    }
    CopyKind copy_kind() {
        return one_of<CopyKind>(
            {{"tma", CopyKind::Tma}, {"cp_async", CopyKind::CpAsync}, {"plain", CopyKind::Plain}});
    }
    ReduceOp reduce_op() {
        return one_of<ReduceOp>({{"sum", ReduceOp::Sum},
                                 {"product", ReduceOp::Product},
                                 {"max", ReduceOp::Max},
                                 {"min", ReduceOp::Min}});
    }

    void plan() {
        TilePlan &p = k_.plan;
        const Token t = next();
        const std::string word = name("a line of the plan");
        auto sized = [&](auto &map) {
            std::string func = name("a Func");
            std::string var = name("an RVar");
            map[func][var] = integer("a size");
        };
        if (word == "kernel") {
            p.kernel = name("a Func");
        } else if (word == "block") {
            BlockDim b;
            b.var = name("a Var");
            expect(":");
            b.size = integer("a size");
            b.loop = accept_word("over") ? name("a loop") : "";
            p.blocks.push_back(b);
        } else if (word == "grid") {
            p.grid = names("a loop");
        } else if (word == "split") {
            sized(p.split);
        } else if (word == "whole") {
            sized(p.whole);
        } else if (word == "tiles" || word == "outside") {
            const auto all = names("a Func");
            (word == "tiles" ? p.tiles : p.outside).insert(all.begin(), all.end());
        } else if (word == "copy") {
            CopyPlan &c = p.copies[name("a view")];
            expect(":");
            c.kind = copy_kind();
            c.swizzle = numbered("swizzle");
            c.stages = numbered("stages");
            c.registers = accept_word("registers");
            c.multicast = accept_word("multicast");
        } else if (word == "product") {
            MmaPlan &m = p.products[name("a Func")];
            expect(":");
            m.kind = one_of<MmaKind>(
                {{"wgmma", MmaKind::Wgmma}, {"mma_sync", MmaKind::MmaSync}, {"fma", MmaKind::Fma}});
            m.stage = numbered("stage");
            m.tf32 = accept_word("tf32");
        } else if (word == "split_reduce") {
            const std::string func = name("a Func");
            expect(":");
            p.splits[func].parts = integer("a number of parts");
        } else if (word == "rows") {
            p.rows = name("a Var");
        } else if (word == "warpgroups") {
            two(p.consumers, p.producers);
        } else if (word == "registers") {
            two(p.consumer_registers, p.producer_registers);
        } else if (word == "persistent") {
            p.persistent = integer("a number");
        } else if (word == "dynamic") {
            p.dynamic = true;
        } else if (word == "ping_pong") {
            p.ping_pong = true;
        } else if (word == "launch_ahead") {
            p.launch_ahead = true;
        } else if (word == "direct") {
            p.direct = true;
        } else if (word == "slow_warp") {
            p.slow_warp = integer("a warp");
        } else if (word == "cluster") {
            two(p.cluster_x, p.cluster_y);
        } else if (word == "spread") {
            p.spread = name("a Var");
            expect(":");
            p.spread_blocks = integer("a number of blocks");
        } else {
            fail("K1161", fmt::format("expected a line of the plan, found {}", t.words()), t.span);
        }
    }

    void two(int &a, int &b) {
        a = integer("a number");
        expect(",");
        b = integer("a number");
    }

    void layout() {
        const Token t = next();
        const std::string id = name("the layout's name");
        expect("=");
        if (registers_.count(id) || shared_.count(id)) {
            fail("K1164", fmt::format("layout `{}` is stated twice", id), t.span);
        }
        if (accept_word("shared")) {
            SharedLayout &l = shared_[id];
            expect("(");
            l.inner = axis_or_none();
            expect(":");
            l.inner_extent = integer("an extent");
            expect(",");
            l.outer = axis_or_none();
            expect(":");
            l.outer_extent = integer("an extent");
            expect(")");
            l.element_bytes = numbered("element");
            l.slab = numbered("slab");
            l.pitch = numbered("pitch");
            l.swizzle = numbered("swizzle");
            return;
        }
        RegisterLayout &l = registers_[id];
        expect_word("threads");
        l.threads = parts();
        expect_word("registers");
        l.registers = parts();
    }

    std::string axis_or_none() { return accept("-") ? "" : name("an axis"); }

    std::vector<LayoutPart> parts() {
        std::vector<LayoutPart> all;
        expect("(");
        while (!next().is(")")) {
            LayoutPart p;
            p.axis = axis_or_none();
            p.stride = p.axis.empty() ? 0 : accept("*") ? integer("a stride") : 1;
            expect(":");
            p.extent = integer("an extent");
            all.push_back(p);
            if (!accept(",")) {
                break;
            }
        }
        expect(")");
        return all;
    }

    void ring() {
        Ring r;
        r.name = name("a ring");
        expect(":");
        if (!accept("-")) {
            r.tiles = names("a tile");
        }
        r.depth = numbered("depth");
        r.bytes = numbered("bytes");
        r.consumers = numbered("consumers");
        r.blocks = accept_word("blocks") ? integer("a number of blocks") : 1;
        r.barriers = numbered("barriers");
        k_.rings.push_back(r);
    }

    template<typename L>
    L layout_at(const std::map<std::string, L> &all) {
        const Token t = next();
        const std::string id = name("a layout");
        auto l = all.find(id);
        if (l == all.end()) {
            fail("K1164", fmt::format("no layout `{}` of this kind", id), t.span);
        }
        return l->second;
    }

    /// A tile's name; where `:` follows, its declaration.
    std::string declare() {
        const Token t = next();
        const std::string tile = name("a tile");
        if (!accept(":")) {
            if (!k_.tiles.count(tile)) {
                fail("K1164", fmt::format("tile `{}` is declared nowhere", tile), t.span,
                     {fmt::format("state its type and axes where it is first defined: `{}: f32[m:128]`",
                                  tile)});
            }
            return tile;
        }
        if (!declared_.insert(tile).second) {
            fail("K1164", fmt::format("tile `{}` is declared twice", tile), t.span);
        }
        const Halide::Type of = type();
        Tile &d = k_.tiles[tile];
        d.name = d.func = tile;
        d.type = of;
        expect("[");
        while (!next().is("]")) {
            const Token a = next();
            std::string axis = name("an axis");
            expect(":");
            const int extent = integer("an extent");
            auto e = k_.axes.find(axis);
            if (e == k_.axes.end() || e->second != extent) {
                fail("K1166",
                     e == k_.axes.end() ? fmt::format("no axis `{}`", axis)
                                        : fmt::format("axis `{}` of {} elements, but `axes` says {}", axis,
                                                      extent, e->second),
                     a.span);
            }
            d.axes.push_back(axis);
            if (!accept(",")) {
                break;
            }
        }
        expect("]");
        if (accept_word("of")) {
            d.func = accept("-") ? "" : name("a Func");
        }
        if (accept("@")) {
            if (shared_.count(next().text)) {
                d.space = Space::Shared;
                d.shared = layout_at(shared_);
                d.offset = numbered("at");
            } else {
                d.registers = layout_at(registers_);
            }
        }
        if (accept_word("ring")) {
            d.ring = name("a ring");
        }
        if (accept_word("in")) {
            d.alias = name("a tile");
        }
        d.partial = accept_word("partial");
        return tile;
    }

    Body body() {
        expect("{");
        Body b;
        while (!next().is("}")) {
            b.push_back(statement());
        }
        take();
        return b;
    }

    /// A body that opens behind the statement's note.
    Body body_after_note(Stmt &s) {
        expect("{");
        note(s);
        Body b;
        while (!next().is("}")) {
            b.push_back(statement());
        }
        take();
        return b;
    }

    void note(Stmt &s) {
        if (next().kind == Token::Kind::Note) {
            s.func = take().text;
        }
    }

    Stmt statement() {
        Stmt s;
        if (next().kind != Token::Kind::Name) {
            unexpected("a statement");
        }
        if (peek().is(":") || peek().is("=")) {
            const std::string dst = declare();
            s.func = k_.tiles.at(dst).func;
            expect("=");
            definition(s, dst);
        } else if (!with_body(s)) {
            simple(s);
        }
        note(s);
        return s;
    }

    void definition(Stmt &s, const std::string &dst) {
        if (accept_word("copy")) {
            s.op = Copy{dst, region()};
        } else if (accept_word("load")) {
            Load l;
            l.dst = dst;
            l.kind = copy_kind();
            l.from = region();
            l.rows = accept_word("rows") ? expr() : Expr();
            if (accept_word("part")) {
                l.part = expr();
                l.parts = numbered("of");
                expect_word("to");
                l.blocks = expr();
            }
            s.op = l;
        } else if (accept_word("mma")) {
            Mma m;
            m.dst = dst;
            expect("(");
            if (next().kind == Token::Kind::Int) {
                integer("0");
            } else {
                m.start = name("a tile or 0");
            }
            expect(",");
            m.a = name("a tile");
            expect(",");
            m.b = name("a tile");
            expect(";");
            m.axis = name("an axis");
            m.limit = below();
            expect(")");
            if (accept_word("zero")) {
                expect_word("when");
                m.zero_when = expr();
            }
            s.op = m;
        } else if (accept_word("map")) {
            Map m;
            m.dst = dst;
            m.value = expr();
            m.unless = accept_word("unless") ? expr() : Expr();
            s.op = m;
        } else if (accept_word("reduce")) {
            Reduce r;
            r.dst = dst;
            r.op = reduce_op();
            expect_word("over");
            r.axis = name("an axis");
            r.limit = below();
            r.blocks = accept_word("blocks") ? integer("a number of blocks") : 1;
            if (accept("@")) {
                r.over = layout_at(registers_);
            }
            expect_word("of");
            r.value = expr();
            s.op = r;
        } else if (accept_word("fill")) {
            s.op = Fill{dst, expr()};
        } else if (accept_word("move")) {
            s.op = Move{dst, name("a tile")};
        } else if (accept_word("lane_reduce")) {
            LaneReduce l;
            l.dst = dst;
            l.op = reduce_op();
            l.src = name("a tile");
            s.op = l;
        } else {
            unexpected("one of copy, load, mma, map, reduce, fill, move and lane_reduce");
        }
    }

    Expr below() { return accept_word("below") ? expr() : Expr(); }

    bool with_body(Stmt &s) {
        if (next().is_word("for") && peek().is_word("each") && peek(2).is_word("tile")) {
            take(), take(), take();
            Body b = body_after_note(s);
            s.op = TileLoop{std::move(b)};
        } else if (accept_word("for")) {
            For f;
            f.var = name("a loop variable");
            loops_.insert(f.var);
            expect_word("in");
            f.lo = expr();
            expect("..");
            f.hi = expr();
            if (accept_word("untested")) {
                f.untested_from = expr();
                expect("..");
                f.untested_to = expr();
            }
            if (accept_word("carry")) {
                do {
                    Carry c;
                    c.name = declare();
                    expect("=");
                    c.init = expr();
                    expect_word("then");
                    c.next = name("a tile");
                    f.carry.push_back(c);
                } while (accept(","));
            }
            f.body = body_after_note(s);
            s.op = std::move(f);
        } else if (accept_word("if")) {
            If i;
            i.condition = expr();
            i.body = body_after_note(s);
            if (accept_word("else")) {
                i.otherwise = body();
            }
            s.op = std::move(i);
        } else if (accept_word("last")) {
            Last l;
            expect_word("of");
            l.parts = expr();
            expect_word("at");
            l.at = region();
            l.body = body_after_note(s);
            s.op = std::move(l);
        } else if (accept_word("role")) {
            Role r;
            r.name = name("a role");
            r.warpgroups = numbered("warpgroups");
            r.first_warpgroup = numbered("from");
            r.threads = numbered("threads");
            r.registers = numbered("registers");
            r.body = body_after_note(s);
            s.op = std::move(r);
        } else {
            return false;
        }
        return true;
    }

    void simple(Stmt &s) {
        if (accept_word("wait")) {
            Wait w;
            w.what = one_of<Wait::What>({{"full", Wait::What::Full}, {"empty", Wait::What::Empty}});
            w.ring = name("a ring");
            s.op = w;
        } else if (accept_word("expect")) {
            Expect e;
            e.ring = name("a ring");
            expect_word("bytes");
            e.bytes = expr();
            s.op = e;
        } else if (accept_word("release")) {
            Release r;
            r.ring = name("a ring");
            r.sync = accept_word("sync");
            r.blocks = accept_word("to") ? expr() : Expr();
            s.op = r;
        } else if (accept_word("drain")) {
            s.op = Drain{name("a ring")};
        } else if (accept_word("advance")) {
            s.op = Advance{name("a ring")};
        } else if (accept_word("skip")) {
            Skip skip;
            skip.ring = name("a ring");
            expect_word("by");
            skip.count = expr();
            s.op = skip;
        } else if (accept_word("mma_fence")) {
            s.op = MmaFence{};
        } else if (accept_word("mma_commit")) {
            s.op = MmaCommit{};
        } else if (accept_word("mma_wait")) {
            s.op = MmaWait{integer("a number of groups")};
        } else if (accept_word("cluster_barrier")) {
            s.op = ClusterBarrier{};
        } else if (accept_word("proxy_fence")) {
            s.op = ProxyFence{};
        } else if (accept_word("publish")) {
            s.op = Publish{};
        } else if (accept_word("store_commit")) {
            s.op = StoreCommit{};
        } else if (accept_word("store_wait")) {
            s.op = StoreWait{integer("a number of stores")};
        } else if (accept_word("barrier")) {
            Barrier b;
            b.id = expr();
            b.threads = numbered("threads");
            b.arrive_only = accept_word("arrive");
            s.op = b;
        } else if (accept_word("store")) {
            Store o;
            o.to = region();
            expect("=");
            o.src = name("a tile");
            s.op = o;
        } else if (accept_word("global_store")) {
            GlobalStore o;
            o.to = region();
            expect("=");
            o.src = name("a tile");
            o.vector = numbered("vector");
            s.op = o;
        } else if (accept_word("stage")) {
            StageStore o;
            o.src = declare();
            o.row_block = numbered("rows");
            o.column = numbered("column");
            expect_word("at");
            o.buffer = expr();
            expect("@");
            o.layout = layout_at(shared_);
            o.value = accept_word("of") ? expr() : Expr();
            s.op = o;
        } else if (accept_word("tma_store")) {
            TmaStore o;
            o.to = region();
            expect_word("at");
            o.buffer = expr();
            expect("@");
            o.layout = layout_at(shared_);
            s.op = o;
        } else {
            unexpected("a statement");
        }
    }
};

} // namespace

Kernel parse_kernel(const std::string &text, const std::string &file) {
    return Parser(tokens_of(text, file), file).run();
}

} // namespace kiln::tile
