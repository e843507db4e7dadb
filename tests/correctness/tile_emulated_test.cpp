// Emitted CUDA text, run on the CPU by tests/correctness/cuda_emulator.h, against Halide: what descriptors, fragments,
// swizzles, boxes, guards and barriers of the text come to, on whole and on ragged sizes.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_emulation.h"
#include "tests/correctness/tile_launch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <regex>

namespace kiln::tile {
namespace {

struct Case {
    std::string name, program;
    Kernel kernel;
    EmittedKernel emitted;
    bool broken = false; ///< a fault was planted in the text: the result must show it
};

void set_block(TilePlan &p, int m, int n) {
    for (BlockDim &b : p.blocks) {
        b.size = b.var == "m" ? m : b.var == "n" ? n : b.size;
    }
}

Case make(const std::string &name, const std::string &program,
          const std::function<void(TilePlan &)> &change = {}, const EmitOptions &options = {}) {
    Program p = tile_program(program);
    if (change) {
        change(p.plan);
    }
    Case c{name, program, build_kernel(p.plan, p.outputs), {}};
    c.kernel.name = name;
    c.kernel = run_passes(std::move(c.kernel), limits_of(Target::parse("cuda sm_90a")));
    c.emitted = emit_emulated(c.kernel, options);
    return c;
}

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const Program &p : tile_programs()) {
        all.push_back(make(p.name, p.name));
    }
    auto kinds = [](CopyKind copies, MmaKind products) {
        return [=](TilePlan &p) {
            for (auto &[name, c] : p.copies) {
                c.kind = copies;
            }
            for (auto &[name, m] : p.products) {
                m.kind = products;
            }
        };
    };
    all.push_back(make("wide_persistent", "gemm_bias_gelu", [](TilePlan &p) {
        set_block(p, 128, 192);
        p.persistent = 2;
    }));
    all.push_back(make("ping_pong", "gemm_residual", [](TilePlan &p) {
        set_block(p, 64, 64);
        p.persistent = 2;
        p.ping_pong = true;
    }));
    all.push_back(make("lag_in_turn", "attention", [](TilePlan &p) {
        p.lags["o"] = {8, {}};
        p.turns = true;
    }));
    all.push_back(make("dynamic", "gemm_nn", [](TilePlan &p) {
        p.persistent = 1;
        p.dynamic = true;
    }));
    auto clusters = [](int x, int y) {
        return [=](TilePlan &p) {
            set_block(p, 64, 64);
            p.consumers = 1;
            p.cluster_x = x;
            p.cluster_y = y;
            for (auto &[name, c] : p.copies) {
                c.multicast = name == "x" ? y > 1 : name == "w" && x > 1; // the first block loop is that of m
            }
        };
    };
    auto spread = [](int blocks, int rows) {
        return [=](TilePlan &p) {
            p.spread = "n";
            p.spread_blocks = blocks;
            p.blocks = {{"n", "", 1024}, {"m", "mo", rows}};
            p.rows = rows > 1 ? "m" : "";
            p.consumers = 1;
        };
    };
    all.push_back(make("spread_softmax", "row_softmax", spread(4, 1)));
    all.push_back(make("spread_layer_norm", "layer_norm", spread(8, 8)));
    all.push_back(make("spread_rms", "add_rms_norm", [=](TilePlan &p) {
        spread(2, 1)(p);
        p.persistent = 1;
    }));
    all.push_back(make("cluster_x", "gemm_nn", clusters(2, 1)));
    all.push_back(make("cluster_y", "gemm_tn", [=](TilePlan &p) {
        clusters(1, 2)(p);
        p.persistent = 4;
    }));
    all.push_back(make("cluster_both", "gemm_residual", [=](TilePlan &p) {
        clusters(2, 2)(p);
        p.persistent = 1;
    }));
    all.push_back(make("across", "gemm_bias_gelu", [](TilePlan &p) {
        set_block(p, 24, 128);
        p.rows = "n";
    }));
    auto split = [](int parts) { return [=](TilePlan &p) { p.splits["acc"] = {parts, {}}; }; };
    all.push_back(make("split", "gemm_bias_gelu", split(3)));
    all.push_back(make("split_turn", "gemm_nn", [=](TilePlan &p) {
        set_block(p, 64, 64);
        split(2)(p);
        p.persistent = 4;
        p.ping_pong = true;
    }));
    all.push_back(make("split_fma", "gemm_f32", split(2)));
    all.push_back(make("odd_columns", "gemm_nt", [](TilePlan &p) { set_block(p, 128, 72); }));
    all.push_back(make("direct", "gemm_residual", [](TilePlan &p) { p.direct = true; }));
    all.push_back(make("tall", "gemm_tt", [](TilePlan &p) { set_block(p, 256, 64); }));
    all.push_back(make("narrow_swizzle", "gemm_nn", [](TilePlan &p) {
        set_block(p, 128, 32);
        p.copies["x"].swizzle = 64;
    }));
    all.push_back(make("sync_nt", "gemm_nt", kinds(CopyKind::CpAsync, MmaKind::MmaSync)));
    all.push_back(make("sync_nn", "gemm_nn", kinds(CopyKind::Plain, MmaKind::MmaSync)));
    all.push_back(make("sync_tn", "gemm_tn", kinds(CopyKind::Tma, MmaKind::MmaSync)));
    all.push_back(make("wgmma_async", "gemm_nt", kinds(CopyKind::CpAsync, MmaKind::Wgmma)));
    auto together = [&](MmaKind products) {
        return [=](TilePlan &p) {
            kinds(CopyKind::Plain, products)(p);
            p.producers = 0;
        };
    };
    all.push_back(make("together_fma", "gemm_bias_gelu", together(MmaKind::Fma)));
    all.push_back(make("together_sync", "gemm_tt", together(MmaKind::MmaSync)));
    all.push_back(make("together_wgmma", "gemm_nn", together(MmaKind::Wgmma), {false}));
    all.push_back(make("sync_any", "gemm_nn", kinds(CopyKind::CpAsync, MmaKind::MmaSync), {false}));
    all.push_back(make("softmax_plain", "row_softmax", {}, {false}));
    return all;
}

/// One change of the text each: the first place where `from` stands.
std::vector<Case> broken_cases() {
    struct Fault {
        const char *program, *from, *to;
    };
    const Fault faults[] = {
        {"gemm_nt", "a1 + 2, b0 + 2", "a1 + 2, b0 + 4"},                   // another step of the reduction
        {"gemm_nt", ", bytes_ring)", ", bytes_ring + 1)"},                 // a byte that never comes
        {"gemm_nt", "16, 1024, 1)", "16, 1024, 2)"},                       // another swizzle
        {"gemm_nt", "16, 1024, 1)", "16, 512, 1)"},                        // another stride
        {"gemm_nt", "thread / 32 % 4 * 16 + thread % 16", "thread % 16"},  // staged by one warp
        {"gemm_nt", "mbar_wait(full_ring", "if (wg) mbar_wait(full_ring"}, // read before arrival
        {"gemm_nn", "tma_load_2d(shared + 131072", "tma_load_2d(shared + 131200"},
        {"row_softmax", "shuffle_xor(t_total[i], 16)", "shuffle_xor(t_total[i], 8)"},
        {"column_sums", "__syncthreads();\n                for", "for"}, // others' sums are read too early
        {"attention", "re:(t_\\w+\\[4\\]), (t_\\w+\\[5\\])", "$2, $1"},  // fragments in another order
        {"gemm_f32", "< y_extent_0", "<= y_extent_0"},                   // writes past the end
    };
    std::vector<Case> all;
    for (const Fault &f : faults) {
        Case c = make(f.program, f.program);
        c.broken = true;
        const std::string before = c.emitted.text, from = f.from;
        if (from.starts_with("re:")) {
            c.emitted.text = std::regex_replace(before, std::regex(from.substr(3)), f.to,
                                                std::regex_constants::format_first_only);
        } else if (const size_t at = before.find(from); at != std::string::npos) {
            c.emitted.text.replace(at, from.size(), f.to);
        }
        EXPECT_NE(c.emitted.text, before) << f.program << " does not say " << f.from;
        c.name = fmt::format("{} with {} for {}", f.program, f.to, f.from);
        all.push_back(std::move(c));
    }
    return all;
}

/// All kernels in one shared object.
class TileEmulated : public testing::Test {
public:
    static void SetUpTestSuite() {
        cases_ = cases();
        for (Case &c : broken_cases()) {
            cases_.push_back(std::move(c));
        }
        std::vector<EmittedKernel> kernels;
        for (const Case &c : cases_) {
            kernels.push_back(c.emitted);
        }
        emulation_ = std::make_unique<Emulation>();
        log_ = emulation_->compile(std::move(kernels));
    }
    static void TearDownTestSuite() { emulation_.reset(); }

    static std::vector<Case> cases_;
    static std::unique_ptr<Emulation> emulation_;
    static std::string log_;
};
std::vector<Case> TileEmulated::cases_;
std::unique_ptr<Emulation> TileEmulated::emulation_;
std::string TileEmulated::log_;

/// What is wrong with the case's results; "" for nothing.
std::string check(const Case &c, size_t number) {
    Reference reference(tile_program(c.program));
    for (const Extents &size : reference.program().sizes) {
        const Memory inputs = reference.data(size), wanted = reference.outputs(inputs, size);
        Memory m;
        for (const auto &[name, a] : inputs) {
            m[name] = spread(a);
        }
        const Memory before = m;
        std::string fault = TileEmulated::emulation_->launch(number, m);
        // Running sums round the operand of a product by another maximum than the formula does (docs/numerics.md).
        const double units = c.program == "attention" || c.program == "attention_distance" ? 8 : 2;
        fault = fault.empty() ? compare(m, wanted, units) : fault;
        if (const std::string where = written_outside(before, m, wanted); fault.empty() && !where.empty()) {
            fault = fmt::format("writes outside `{}`", where);
        }
        if (!fault.empty()) {
            return fault;
        }
    }
    return "";
}

TEST_F(TileEmulated, ComputesWhatHalideDoes) {
    ASSERT_EQ(log_, "");
    for (size_t i = 0; i < cases_.size(); i++) {
        if (!cases_[i].broken) {
            EXPECT_EQ(check(cases_[i], i), "") << cases_[i].name;
        }
    }
}

TEST_F(TileEmulated, SeesPlantedFaults) {
    ASSERT_EQ(log_, "");
    for (size_t i = 0; i < cases_.size(); i++) {
        if (cases_[i].broken) {
            EXPECT_NE(check(cases_[i], i), "") << cases_[i].name;
        }
    }
}

} // namespace
} // namespace kiln::tile
