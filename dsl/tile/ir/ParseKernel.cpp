#include "dsl/tile/ir/ParseKernel.h"

namespace kiln::tile {

void KernelParser::collect_types() {
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

void KernelParser::header() {
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

int KernelParser::numbered(const char *word) {
    expect_word(word);
    return integer("a number");
}

std::vector<std::string> KernelParser::names(const char *what) {
    std::vector<std::string> all;
    do {
        all.push_back(name(what));
    } while (accept(","));
    return all;
}

CopyKind KernelParser::copy_kind() {
    return one_of<CopyKind>(
        {{"tma", CopyKind::Tma}, {"cp_async", CopyKind::CpAsync}, {"plain", CopyKind::Plain}});
}

ReduceOp KernelParser::reduce_op() {
    return one_of<ReduceOp>({{"sum", ReduceOp::Sum},
                             {"product", ReduceOp::Product},
                             {"max", ReduceOp::Max},
                             {"min", ReduceOp::Min}});
}

void KernelParser::plan() {
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
    } else if (word == "lag") {
        const std::string func = name("a Func");
        expect(":");
        p.lags[func].bits = integer("a number of bits");
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
    } else if (word == "turns") {
        p.turns = true;
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

void KernelParser::two(int &a, int &b) {
    a = integer("a number");
    expect(",");
    b = integer("a number");
}

void KernelParser::layout() {
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

std::vector<LayoutPart> KernelParser::parts() {
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

void KernelParser::ring() {
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

std::string KernelParser::declare() {
    const Token t = next();
    const std::string tile = name("a tile");
    if (!accept(":")) {
        if (!k_.tiles.count(tile)) {
            fail("K1164", fmt::format("tile `{}` is declared nowhere", tile), t.span,
                 {fmt::format("state its type and axes where it is first defined: `{}: f32[m:128]`", tile)});
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
                 e == k_.axes.end()
                     ? fmt::format("no axis `{}`", axis)
                     : fmt::format("axis `{}` of {} elements, but `axes` says {}", axis, extent, e->second),
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

} // namespace kiln::tile
