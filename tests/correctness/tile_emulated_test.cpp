// Emitted CUDA text, run on the CPU by tests/correctness/cuda_emulator.h, against Halide: what descriptors, fragments,
// swizzles, boxes, guards and barriers of the text come to, on whole and on ragged sizes.
#include "dsl/tile/build/Build.h"
#include "dsl/tile/emit/CudaPrinter.h"
#include "dsl/tile/emit/ExprC.h"
#include "dsl/tile/passes/Runner.h"
#include "tests/correctness/tile_launch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace kiln::tile {
namespace {

using namespace Halide::Internal;

/// Wrappers come from the emulator.
class Emulated : public CudaDialect {
public:
    const std::string &use(const std::string &name) override { return *names_.insert(name).first; }
    std::string wgmma(const WgmmaShape &s) override {
        const char *type = type_of(s.type);
        const std::string name = fmt::format("wgmma_{}_n{}_{}_{}{}", s.a_in_registers ? "rs" : "ss", s.n,
                                             type, int(s.a_transposed), int(s.b_transposed));
        const char *sum = s.type.is_float() ? "float" : "int";
        add(name,
            fmt::format("DEV void {}({} *d, {}, u64 b, int add) {{\n    {}\n    "
                        "emulator::wgmma(emulator::Type::{}, {}, d, "
                        "{}, {}, b, {}, add);\n}}",
                        name, sum, s.a_in_registers ? "u32 a0, u32 a1, u32 a2, u32 a3" : "u64 a",
                        s.a_in_registers
                            ? "const u32 a[4] = {a0, a1, a2, a3}; u32(*table)[8] = emulator::exchange(a, 4);"
                            : "",
                        type, s.n, s.a_in_registers ? "nullptr, table" : "&a, nullptr", !s.a_transposed,
                        !s.b_transposed));
        return name;
    }
    std::string mma_sync(Halide::Type t) override {
        return fmt::format("emulator::mma_sync_as<emulator::Type::{}>", type_of(t));
    }
    std::string tma_load(int rank, bool multicast) override {
        return multicast ? box("load_to", "u32 at, const TensorMap &m, u32 bar", "at, m, bar, bits", rank,
                               ", u32 bits")
                         : box("load", "u32 at, const TensorMap &m, u32 bar", "at, m, bar", rank);
    }
    std::string tma_store(int rank) override {
        return box("store", "const TensorMap &m, u32 at", "m, at", rank);
    }
    std::string prelude() const override { return text_; }

private:
    std::set<std::string> names_;
    static const char *type_of(Halide::Type t) {
        return t.is_bfloat()  ? "Bf16"
               : t.is_float() ? (t.bits() == 16 ? "F16" : "Tf32")
               : t.is_int()   ? "S8"
                              : "U8";
    }
    std::string box(const char *what, const char *parameters, const char *arguments, int rank,
                    const char *last = "") {
        const std::string name = fmt::format("tma_{}_{}d", what, rank);
        std::string at, list;
        for (int i = 0; i < rank; i++) {
            at += fmt::format(", int x{}", i);
            list += fmt::format("{}x{}", i ? ", " : "", i);
        }
        add(name,
            fmt::format("DEV void {}({}{}{}) {{ const int x[] = {{{}}}; emulator::tma_{}({}, x, {}); }}",
                        name, parameters, at, last, list, what, arguments, rank));
        return name;
    }
};

/// As cuda_emulator.h has it.
struct alignas(64) TensorMap {
    void *base = nullptr;
    int rank = 0, element = 0, swizzle = 0;
    long long extent[5] = {}, stride[5] = {};
    int box[5] = {};
};

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
    Emulated dialect;
    c.emitted = CudaPrinter(c.kernel, dialect, options).run();
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
        folder_ = std::filesystem::temp_directory_path() / fmt::format("kiln_emulated_{}", getpid());
        std::filesystem::create_directories(folder_);
        const std::string source = (folder_ / "kernels.cpp").string(),
                          object = (folder_ / "kernels.so").string();
        std::ofstream out(source);
        out << "#include \"tests/correctness/cuda_emulator.h\"\n";
        for (size_t i = 0; i < cases_.size(); i++) {
            std::string text = cases_[i].emitted.text;
            const std::string shared =
                "    extern __shared__ unsigned char memory[];\n"; // would be the namespace's own
            if (size_t at = text.find(shared); at != std::string::npos) {
                text.erase(at, shared.size());
            }
            const std::string c_name =
                "extern \"C\" __global__"; // as in the namespace, where names may be the same
            text.replace(text.find(c_name), c_name.size(), "__global__");
            std::string arguments;
            for (size_t a = 0; a < cases_[i].emitted.params.size(); a++) {
                arguments += fmt::format("{}emulator::Argument{{p[{}]}}", a ? ", " : "", a);
            }
            out << fmt::format("namespace k{} {{\n{}}}\nextern \"C\" const char *launch_{}(unsigned blocks, "
                               "unsigned threads, void "
                               "**p) {{\n    static std::string fault;\n    fault = emulator::launch(blocks, "
                               "threads, [&] {{ "
                               "k{}::{}({}); }}, {});\n    return fault.c_str();\n}}\n",
                               i, text, i, i, cases_[i].emitted.name, arguments, cases_[i].emitted.cluster);
        }
        out.close();
        const std::string log = (folder_ / "log").string();
        const char *compiler = std::getenv("CXX");
        const int failed = std::system(
            fmt::format("timeout 300 {} -std=c++17 -O1 -w -fPIC -shared -I {} {} -o {} > {} 2>&1",
                        compiler && *compiler ? compiler : "c++", KILN_SOURCE_DIR, source, object, log)
                .c_str());
        std::stringstream said;
        said << std::ifstream(log).rdbuf();
        log_ = said.str().substr(0, 4000);
        library_ = failed ? nullptr : dlopen(object.c_str(), RTLD_NOW);
    }
    static void TearDownTestSuite() {
        if (!std::getenv("KILN_KEEP")) {
            std::filesystem::remove_all(folder_);
        }
    }

    static std::vector<Case> cases_;
    static std::filesystem::path folder_;
    static std::string log_;
    static void *library_;
};
std::vector<Case> TileEmulated::cases_;
std::filesystem::path TileEmulated::folder_;
std::string TileEmulated::log_;
void *TileEmulated::library_ = nullptr;

/// Runs the case on `m`; "" or the fault.
std::string launch(const Case &c, size_t number, Memory &m) {
    std::vector<std::vector<uint8_t>> storage;
    std::vector<std::unique_ptr<TensorMap>> maps;
    std::vector<void *> p;
    int64_t tiles = 1;
    for (const GridLoop &g : c.emitted.grid) {
        tiles *= evaluate(g.extent, m);
    }
    auto put = [&](auto v) {
        storage.emplace_back(sizeof v);
        std::memcpy(storage.back().data(), &v, sizeof v);
        p.push_back(storage.back().data());
    };
    for (const KernelParam &k : c.emitted.params) {
        switch (k.kind) {
        case KernelParam::Kind::TensorMap: {
            Array &a = m.at(k.map.view);
            auto t = std::make_unique<TensorMap>();
            t->base = a.bytes.data();
            t->rank = static_cast<int>(a.extents.size());
            t->element = a.type.bytes();
            t->swizzle = k.map.swizzle;
            for (size_t d = 0; d < a.extents.size(); d++) {
                t->extent[d] = a.extents[d];
                t->stride[d] = a.strides[d] * a.type.bytes();
                t->box[d] = k.map.box[d];
                if (static_cast<int>(d) == k.map.clipped) { // as the launch has it (kiln_tile.h)
                    t->box[d] = static_cast<int>(
                        std::max<int64_t>(8, std::min<int64_t>(t->box[d], (a.extents[d] + 7) / 8 * 8)));
                }
            }
            p.push_back(t.get());
            maps.push_back(std::move(t));
            break;
        }
        case KernelParam::Kind::Pointer:
            p.push_back(m.at(k.view).bytes.data());
            break;
        case KernelParam::Kind::Value:
            put(static_cast<int>(evaluate(k.value, m)));
            break;
        case KernelParam::Kind::Reciprocal:
            put(reciprocal_of(evaluate(k.value, m)));
            break;
        case KernelParam::Kind::Counter:
            put(std::array<int, 2>{});
            break;
        case KernelParam::Kind::Workspace:
            storage.emplace_back(static_cast<size_t>(evaluate(k.value, m)), uint8_t(0xff));
            p.push_back(storage.back().data());
            break;
        case KernelParam::Kind::Counters:
            storage.emplace_back(static_cast<size_t>(evaluate(k.value, m)) * sizeof(int));
            p.push_back(storage.back().data());
            break;
        }
    }
    auto *f = reinterpret_cast<const char *(*)(unsigned, unsigned, void **)>(
        dlsym(TileEmulated::library_, fmt::format("launch_{}", number).c_str()));
    const int64_t blocks = c.emitted.persistent ? std::min<int64_t>(tiles, 2 * c.emitted.cluster) : tiles;
    if (c.emitted.shared_bytes > 232448) {
        return "more shared memory than a block may have";
    }
    return f(static_cast<unsigned>(blocks), static_cast<unsigned>(c.emitted.threads), p.data());
}

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
        std::string fault = launch(c, number, m);
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
    ASSERT_NE(library_, nullptr) << log_;
    for (size_t i = 0; i < cases_.size(); i++) {
        if (!cases_[i].broken) {
            EXPECT_EQ(check(cases_[i], i), "") << cases_[i].name;
        }
    }
}

TEST_F(TileEmulated, SeesPlantedFaults) {
    ASSERT_NE(library_, nullptr) << log_;
    for (size_t i = 0; i < cases_.size(); i++) {
        if (cases_[i].broken) {
            EXPECT_NE(check(cases_[i], i), "") << cases_[i].name;
        }
    }
}

} // namespace
} // namespace kiln::tile
