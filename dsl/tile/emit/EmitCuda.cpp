// The frame of a CUDA kernel: parameters, barriers, roles, and the walk over tiles that a counter hands out.
#include "dsl/tile/emit/CudaPrinter.h"
#include "dsl/tile/emit/ElementC.h"
#include "dsl/tile/passes/Consumer.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace kiln::tile {

using namespace Halide::Internal;

namespace {

constexpr int register_file = 65536, most_registers = 255;

bool contains(const std::string &text, const std::string &word) {
    return text.find(word) != std::string::npos;
}

} // namespace

CudaPrinter::CudaPrinter(const Kernel &k, CudaDialect &dialect, const EmitOptions &options)
    : Printer(k, dialect, options), cuda_(dialect) {}

void CudaPrinter::barrier() {
    if (crew_.whole) {
        line("__syncthreads();");
    } else if (k_.plan.ping_pong) {
        line(fmt::format("{}({} + wg, 128);", dialect_.use("bar_sync"), own_barriers));
    } else {
        line(fmt::format("{}({}, {});", dialect_.use("bar_sync"), crew_barrier, crew_.threads()));
    }
}

std::string CudaPrinter::any_lane(const std::string &condition) {
    return fmt::format("{}({})", dialect_.use("any_lane"), condition);
}

std::string CudaPrinter::shuffle_xor(const std::string &value, int mask) {
    return fmt::format("{}({}, {})", dialect_.use("shuffle_xor"), value, mask);
}

bool CudaPrinter::copied_by_threads(const std::string &ring, CopyKind kind) const {
    bool found = false;
    walk(k_.body, [&](const Stmt &s) {
        const Load *l = s.as<Load>();
        found |= l && l->kind == kind && k_.tile(l->dst).ring == ring;
    });
    return found;
}

/// Whether wgmma adds up in the tile's registers.
bool CudaPrinter::is_accumulator(const std::string &tile) const {
    bool found = false;
    walk(k_.body, [&](const Stmt &s) {
        const Mma *m = s.as<Mma>();
        found |= m && k_.is_asynchronous(s) && k_.root(m->dst) == k_.root(tile);
    });
    return found;
}

/// One thread expects the bytes of TMA; each thread that copies arrives for itself.
int CudaPrinter::full_arrivals(const Ring &r) const {
    int threads = 128;
    for (const Stmt &s : k_.body) {
        if (const Role *role = s.as<Role>(); role && role->first_warpgroup >= k_.plan.consumers) {
            threads = role->threads == 1 ? 1 : 128 * role->warpgroups;
        }
    }
    const int tma = copied_by_threads(r.name, CopyKind::Tma),
              async = copied_by_threads(r.name, CopyKind::CpAsync),
              plain = copied_by_threads(r.name, CopyKind::Plain);
    return std::max(1, tma + threads * (async * (options_.vectors ? 1 : 2) + plain));
}

std::string CudaPrinter::barriers() {
    bool waits = false; // without a producer nobody does
    walk(k_.body, [&](const Stmt &s) { waits |= s.as<Wait>() != nullptr; });
    const std::vector<Ring> rings = waits ? k_.rings : std::vector<Ring>();
    return apart([&] {
        for (const Ring &r : rings) {
            line(fmt::format("const u32 {} = shared + {}, {} = shared + {};", id("full_", r.name), r.barriers,
                             id("empty_", r.name), r.barriers + 8 * r.depth));
        }
        const bool prefetches = !maps_.empty();
        if (rings.empty() && !prefetches && !k_.plan.dynamic) {
            return;
        }
        open("if (threadIdx.x == 0)");
        for (const KernelParam &m : maps_) {
            line(fmt::format("{}({});", dialect_.use("prefetch_map"),
                             tensor_map(m.map.view, m.map.box, m.map.swizzle, m.map.clipped)));
        }
        const std::string &init = dialect_.use("mbar_init");
        for (const Ring &r : rings) {
            open(fmt::format("for (int i = 0; i < {}; i++)", r.depth));
            line(fmt::format("{}({} + 8 * i, {});", init, id("full_", r.name), full_arrivals(r)));
            line(fmt::format("{}({} + 8 * i, {});", init, id("empty_", r.name), r.consumers * r.blocks));
            close();
        }
        if (k_.plan.dynamic && !rings.empty()) {
            open("for (int i = 0; i < 2; i++)");
            line(fmt::format("{}(shared + {} + 8 * i, 1);", init, dynamic_at_));
            line(fmt::format("{}(shared + {} + 8 * i, {});", init, dynamic_at_ + 16, 4 * k_.plan.consumers));
            close();
        }
        line(dialect_.use("mbar_init_fence") + "();");
        close();
        line(k_.cluster_blocks() > 1 ? dialect_.use("cluster_start") + "();" : "__syncthreads();");
    });
}

/// What the crew runs, with the variables that turn out to be needed in front of it.
void CudaPrinter::crew_body(const Body &b) {
    std::set<std::string> arrays;
    arrays.swap(arrays_);
    slot_of_.clear();
    phases_.clear();
    held_.clear();
    descriptors_.clear();
    before_.clear();
    offsets_.clear();
    const std::string inner = apart([&] { body(b); });
    std::string rings;
    for (const Ring &r : k_.rings) {
        auto declare = [&](const char *type, const std::string &name) {
            line(fmt::format("{} {} = 0;", type, name));
        };
        if (slot_of_.count(r.name)) {
            declare("int", id("slot_", r.name));
        }
        if (phases_.count(r.name)) {
            declare("u32", id("phase_", r.name));
        }
        if (held_.count(r.name)) {
            declare("int", id("held_", r.name));
        }
    }
    declare_offsets();
    std::istringstream lines(before_);
    for (std::string l; std::getline(lines, l);) {
        line(l);
    }
    declare_arrays();
    arrays_.swap(arrays);
    out_ += inner;
}

void CudaPrinter::role(const Role &r) {
    crew_ = {r.first_warpgroup, r.warpgroups, false, r.threads == 1};
    if (r.registers != 0) {
        const int at_launch = std::min(most_registers, register_file / k_.threads / 8 * 8);
        if (r.registers != at_launch) {
            line(fmt::format("{}<{}>();",
                             dialect_.use(r.registers > at_launch ? "registers_up" : "registers_down"),
                             r.registers));
        }
    }
    const int first = 128 * r.first_warpgroup;
    line(first == 0 ? "const int thread = threadIdx.x;"
                    : fmt::format("const int thread = threadIdx.x - {};", first));
    line(r.first_warpgroup == 0 ? "const int wg = warpgroup;"
                                : fmt::format("const int wg = warpgroup - {};", r.first_warpgroup));
    if (crew_.single) {
        open("if (thread == 0)");
    }
    crew_body(r.body);
    if (crew_.single) {
        close();
    }
}

void CudaPrinter::statement(const Stmt &s) {
    auto say = [&](const char *wrapper) { line(fmt::format("{}();", dialect_.use(wrapper))); };
    const bool meets = s.as<Wait>() || s.as<Release>() || s.as<Barrier>() || s.as<StageStore>() ||
                       s.as<TmaStore>() || s.as<GlobalStore>() || s.as<Last>() || s.as<Load>();
    if (k_.plan.slow_warp >= 0 && meets) {
        line(fmt::format("if (threadIdx.x / 32 == {}) __nanosleep(1000);", k_.plan.slow_warp));
    }
    if (const Fill *f = s.as<Fill>(); f && is_accumulator(f->dst)) {
        // Nothing is in flight here; ptxas has to see it, or it runs all products one after another (C7515).
        line(fmt::format("{}<0>();", dialect_.use("wgmma_wait")));
        Printer::statement(s);
    } else if (const Wait *w = s.as<Wait>()) {
        const Ring &r = *k_.ring(w->ring);
        const bool is_full = w->what == Wait::What::Full;
        line(fmt::format("{}({}, {}{});", dialect_.use("mbar_wait"), is_full ? full(r) : empty(r),
                         phase(w->ring), is_full ? "" : " ^ 1"));
        bool by_tensor_cores = false;
        walk(k_.body, [&](const Stmt &x) { by_tensor_cores |= k_.is_asynchronous(x); });
        if (is_full && by_tensor_cores && copied_by_threads(w->ring, CopyKind::CpAsync)) {
            say("proxy_fence"); // the tensor cores read what threads wrote
        }
    } else if (const Expect *e = s.as<Expect>()) {
        if (copied_by_threads(e->ring, CopyKind::Tma)) {
            const std::string bytes =
                is_const(e->bytes) ? scalar(e->bytes) : value("bytes_" + e->ring, e->bytes);
            line(fmt::format("{}{}({}, {});", one(), dialect_.use("mbar_expect"), full(*k_.ring(e->ring)),
                             bytes));
        }
    } else if (const Release *r = s.as<Release>()) {
        release(*r);
    } else if (const Advance *a = s.as<Advance>()) {
        advance(*a);
    } else if (const Skip *skipped = s.as<Skip>()) {
        skip(*skipped);
    } else if (const Drain *d = s.as<Drain>()) {
        drain(*d);
    } else if (s.as<ClusterBarrier>()) {
        say("cluster_sync");
    } else if (const Load *l = s.as<Load>(); l && l->kind == CopyKind::Tma) {
        tma_load(*l);
    } else if (s.as<MmaFence>()) {
        say("wgmma_fence");
    } else if (s.as<MmaCommit>()) {
        say("wgmma_commit");
    } else if (const MmaWait *w = s.as<MmaWait>()) {
        line(fmt::format("{}<{}>();", dialect_.use("wgmma_wait"), w->pending));
    } else if (const Barrier *b = s.as<Barrier>()) {
        named_barrier(*b);
    } else if (s.as<ProxyFence>()) {
        say("proxy_fence");
    } else if (const StageStore *g = s.as<StageStore>()) {
        stage_store(*g);
    } else if (const TmaStore *t = s.as<TmaStore>()) {
        tma_store(*t);
    } else if (const GlobalStore *g = s.as<GlobalStore>(); g && is_accumulator(g->src)) {
        // ptxas would take the stores for readers of sums in flight, and run all products one after another (C7514).
        line(fmt::format("{}({});", dialect_.use("settled"), array(g->src)));
        Printer::statement(s);
    } else if (s.as<Publish>()) {
        line("__threadfence();");
    } else if (const Last *l = s.as<Last>()) {
        last(*l);
    } else if (s.as<StoreCommit>()) {
        line(fmt::format("{}{}();", one(), dialect_.use("store_commit")));
    } else if (const StoreWait *w = s.as<StoreWait>()) {
        line(fmt::format("{}{}<{}>();", one(), dialect_.use("store_wait"), w->pending));
    } else if (const TileLoop *t = s.as<TileLoop>(); t && k_.plan.dynamic) {
        dynamic_tiles(*t);
    } else {
        Printer::statement(s);
    }
}

/// Tiles come from a counter in global memory. The producer fetches them and passes their numbers on through a ring of
/// two slots; the last block to finish sets the counter back.
void CudaPrinter::dynamic_tiles(const TileLoop &t) {
    Expr all = 1;
    for (const GridLoop &g : k_.grid) {
        all = all * g.extent;
    }
    const std::string tiles = value("tiles", all);
    std::set<std::string> outside;
    outside.swap(arrays_);
    const std::string finish =
        "if (atomicAdd(counter + 1, 1) == (int)gridDim.x - 1) { counter[0] = 0; counter[1] = 0; "
        "__threadfence(); }";
    if (crew_.whole) {
        line("u32 tile = blockIdx.x;");
        open(fmt::format("while (tile < {})", tiles));
        tile_coordinates("tile");
        const std::string inner = apart([&] { body(t.body); });
        declare_arrays();
        out_ += inner;
        line("__syncthreads();");
        line(fmt::format("if (thread == 0) *(u32 *)(smem + {}) = gridDim.x + atomicAdd(counter, 1);",
                         dynamic_at_));
        line("__syncthreads();");
        line(fmt::format("tile = *(u32 *)(smem + {});", dynamic_at_));
        close();
        line("if (thread == 0) { " + finish + " }");
        arrays_.swap(outside);
        return;
    }
    const std::string full = fmt::format("shared + {} + 8 * (turn & 1)", dynamic_at_),
                      empty = fmt::format("shared + {} + 8 * (turn & 1)", dynamic_at_ + 16),
                      number = fmt::format("smem + {} + 4 * (turn & 1)", dynamic_at_ + 32);
    const std::string &wait = dialect_.use("mbar_wait"), &arrive = dialect_.use("mbar_arrive");
    const bool fetches = crew_.single;
    if (fetches) {
        line("u32 tile = blockIdx.x;");
    }
    open("for (int turn = 0;; turn++)");
    if (fetches) {
        line(fmt::format("{}({}, (turn >> 1 & 1) ^ 1);", wait, empty));
        line(fmt::format("*(volatile u32 *)({}) = tile;", number));
        line(fmt::format("{}({});", arrive, full));
        open(fmt::format("if (tile >= {})", tiles));
        line(finish);
        line("break;");
        close();
    } else {
        line(fmt::format("{}({}, turn >> 1 & 1);", wait, full));
        line(fmt::format("const u32 tile = *(volatile u32 *)({});", number));
        line("__syncwarp();");
        line(fmt::format("if (lane == 0) {}({});", arrive, empty));
        line(fmt::format("if (tile >= {}) break;", tiles));
    }
    tile_coordinates("tile");
    const std::string inner = apart([&] { body(t.body); });
    declare_arrays();
    out_ += inner;
    if (fetches) {
        line("tile = gridDim.x + atomicAdd(counter, 1);");
    }
    close();
    arrays_.swap(outside);
}

/// One thread counts; all hear what it found. The fence behind it orders their reads after what the others published.
void CudaPrinter::last(const Last &l) {
    const bool own = k_.plan.ping_pong && !crew_.whole;
    std::vector<std::string> at;
    for (const ViewDim &d : l.at.dims) {
        at.push_back(scalar(d.base));
    }
    const std::string counter = fmt::format("{} + {}", pointer(l.at.view), view_offset(l.at.view, at));
    const std::string id = own ? fmt::format("{} + wg", own_barriers) : std::to_string(crew_barrier);
    const std::string is_last = fresh("last");
    line(fmt::format("// The last of {} blocks to come here adds up what all have stored.", scalar(l.parts)));
    line(fmt::format("int {} = 0;", is_last));
    line(fmt::format("if ({} == 0) {} = {}({}, {});", own ? "thread % 128" : "thread", is_last,
                     dialect_.use("comes_last"), counter, scalar(l.parts)));
    open(
        fmt::format("if ({}({}, {}, {}))", dialect_.use("bar_or"), id, own ? 128 : crew_.threads(), is_last));
    line("__threadfence();");
    body(l.body);
    close();
}

std::string CudaPrinter::map_name(const TensorMapParam &m) {
    std::string name = m.view;
    for (int b : m.box) {
        name += fmt::format("_{}", b);
    }
    return fmt::format("{}_{}{}", name, m.swizzle, m.clipped < 0 ? "" : "_clipped");
}

std::string CudaPrinter::signature(const std::string &name) const {
    // Without a producer no registers change hands: their number says how many blocks share a multiprocessor.
    constexpr int registers_of_unit = 65536;
    const bool bound = k_.plan.consumer_registers > 0 && k_.plan.producers == 0;
    const int blocks = bound ? std::max(1, registers_of_unit / (k_.plan.consumer_registers * k_.threads)) : 1;
    std::string s =
        fmt::format("extern \"C\" __global__ void __launch_bounds__({}, {})\n{}(", k_.threads, blocks, name);
    std::string sep;
    auto add = [&](const std::string &p) {
        s += sep + p;
        sep = ", ";
    };
    for (const KernelParam &m : maps_) {
        add("const __grid_constant__ TensorMap " +
            const_cast<CudaPrinter *>(this)->id("map_", map_name(m.map)));
    }
    for (const KernelParam &p : pointers_) {
        const View &v = *k_.view(p.view);
        // With launch_ahead the previous kernel may still write what this one reads: no load may move up.
        const bool written = v.is_output || !v.is_buffer();
        const bool steady = !written && !k_.plan.launch_ahead;
        add(fmt::format("{}{} *{}{}", written ? "" : "const ", storage(v.type), steady ? "__restrict__ " : "",
                        const_cast<CudaPrinter *>(this)->id("p_", p.view)));
    }
    for (const KernelParam &p : values_) {
        add(fmt::format("{} {}", storage(p.value.type()), p.view));
    }
    for (const KernelParam &p : reciprocals_) {
        add("u64 " + p.view);
    }
    if (k_.plan.dynamic) {
        add("int *counter");
    }
    return s + ")";
}

EmittedKernel CudaPrinter::run() {
    const std::string name = id("", k_.name + "_kernel"); // no helper is called so
    if (k_.plan.dynamic) {
        dynamic_at_ = planned_end();
        extra_ = 48;
    }
    std::vector<const Role *> roles;
    for (const Stmt &s : k_.body) {
        if (const Role *r = s.as<Role>()) {
            roles.push_back(r);
        }
    }
    crew_ = {0, k_.threads / 128, true, false};
    plan_meetings();
    const std::string main = apart([&] {
        if (roles.size() <= 1) {
            crew_ = {0, k_.threads / 128, true, false};
            if (roles.empty()) {
                line("const int thread = threadIdx.x, wg = warpgroup;");
                crew_body(k_.body);
            } else {
                crew_ = {0, roles[0]->warpgroups, true, false};
                line("const int thread = threadIdx.x, wg = warpgroup;");
                crew_body(roles[0]->body);
            }
            return;
        }
        for (size_t i = 0; i < roles.size(); i++) {
            const Role &r = *roles[i];
            const std::string where = r.warpgroups == 1 ? fmt::format("warpgroup == {}", r.first_warpgroup)
                                      : r.first_warpgroup == 0
                                          ? fmt::format("warpgroup < {}", r.warpgroups)
                                          : fmt::format("warpgroup >= {} && warpgroup < {}",
                                                        r.first_warpgroup, r.first_warpgroup + r.warpgroups);
            const bool last = i + 1 == roles.size();
            line(fmt::format("{}{} {{ // {}", i ? "} else " : "", last ? "" : "if (" + where + ")", r.name));
            indent_++;
            role(r);
            indent_--;
        }
        line("}");
    });
    const std::string begin = barriers();
    const std::string pdl = !k_.plan.launch_ahead
                                ? ""
                                : fmt::format("    {}();\n    {}();\n", dialect_.use("launch_next"),
                                              dialect_.use("wait_for_previous"));
    std::string head;
    if (contains(main + begin, "shared") || contains(main, "smem")) {
        const std::string &address = dialect_.use("shared_address");
        head += "    extern __shared__ unsigned char memory[];\n";
        head += fmt::format("    const u32 shared = ({}(memory) + 1023) & ~1023u; // where swizzles begin\n",
                            address);
        head += fmt::format("    unsigned char *smem = memory + (shared - {}(memory));\n", address);
    }
    head += "    const int warpgroup = __shfl_sync(~0u, threadIdx.x >> 7, 0);\n";
    if (k_.cluster_blocks() > 1) {
        head += fmt::format("    const int rank = {}();\n", dialect_.use("cluster_rank"));
    }
    if (meeting_bytes_ > 0) {
        // Meetings begin when all blocks run; where these made barriers together they do.
        const bool started = contains(begin, "cluster_start");
        head += started ? "" : fmt::format("    {}();\n", dialect_.use("cluster_arrive"));
        head += fmt::format("    int met = {};\n", started ? 2 : 0);
    }
    if (contains(main, "lane")) {
        head += "    const int lane = threadIdx.x & 31;\n";
    }
    std::string text = fmt::format("// Kernel `{}`, generated by Kiln.\n", k_.name);
    for (const std::string &r : k_.remarks) {
        text += "// " + r + "\n";
    }
    text += cuda_.prelude() + helpers_ + "\n" + signature(name) + "\n{\n" + head + begin + pdl + main + "}\n";
    EmittedKernel e = finish(text, maps_);
    e.name = name;
    if (k_.plan.dynamic) {
        KernelParam c;
        c.kind = KernelParam::Kind::Counter;
        e.params.push_back(c);
    }
    return e;
}

EmittedKernel emit_cuda(const Kernel &k, const EmitOptions &options) {
    CudaDialect dialect;
    return CudaPrinter(k, dialect, options).run();
}

} // namespace kiln::tile
