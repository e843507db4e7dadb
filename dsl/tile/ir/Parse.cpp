// Reads the statements of tile IR.
#include "dsl/tile/ir/ParseKernel.h"
#include "dsl/tile/ir/Text.h"

#include <fmt/format.h>

namespace kiln::tile {

namespace {

class Parser : public KernelParser {
public:
    using KernelParser::KernelParser;

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
    std::set<std::string> loops_;

    Body body() override {
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
            m.seldom = accept_word("seldom");
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
