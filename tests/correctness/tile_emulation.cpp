#include "tests/correctness/tile_emulation.h"

#include "dsl/tile/emit/CudaPrinter.h"
#include "tests/correctness/tile_launch.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <unistd.h>

namespace kiln::tile {
namespace {

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

} // namespace

EmittedKernel emit_emulated(const Kernel &k, const EmitOptions &options) {
    Emulated dialect;
    return CudaPrinter(k, dialect, options).run();
}

Emulation::~Emulation() {
    if (library_) {
        dlclose(library_);
    }
    if (!folder_.empty() && !std::getenv("KILN_KEEP")) {
        std::filesystem::remove_all(folder_);
    }
}

std::string Emulation::compile(std::vector<EmittedKernel> kernels) {
    kernels_ = std::move(kernels);
    static std::atomic<int> number = 0; // a name of its own: the loader knows libraries by their paths
    folder_ = std::filesystem::temp_directory_path() / fmt::format("kiln_emulated_{}_{}", getpid(), number++);
    std::filesystem::create_directories(folder_);
    const std::string source = (folder_ / "kernels.cpp").string(), object = (folder_ / "kernels.so").string();
    std::ofstream out(source);
    out << "#include \"tests/correctness/cuda_emulator.h\"\n";
    for (size_t i = 0; i < kernels_.size(); i++) {
        std::string text = kernels_[i].text;
        const std::string shared =
            "    extern __shared__ unsigned char memory[];\n"; // would be the namespace's own
        if (size_t at = text.find(shared); at != std::string::npos) {
            text.erase(at, shared.size());
        }
        const std::string c_name =
            "extern \"C\" __global__"; // as in the namespace, where names may be the same
        text.replace(text.find(c_name), c_name.size(), "__global__");
        std::string arguments;
        for (size_t a = 0; a < kernels_[i].params.size(); a++) {
            arguments += fmt::format("{}emulator::Argument{{p[{}]}}", a ? ", " : "", a);
        }
        out << fmt::format("namespace k{} {{\n{}}}\nextern \"C\" const char *launch_{}(unsigned blocks, "
                           "unsigned threads, void "
                           "**p) {{\n    static std::string fault;\n    fault = emulator::launch(blocks, "
                           "threads, [&] {{ "
                           "k{}::{}({}); }}, {});\n    return fault.c_str();\n}}\n",
                           i, text, i, i, kernels_[i].name, arguments, kernels_[i].cluster);
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
    if (failed) {
        return "the compiler fails: " + said.str().substr(0, 4000);
    }
    library_ = dlopen(object.c_str(), RTLD_NOW);
    return library_ ? "" : dlerror();
}

std::string Emulation::launch(size_t number, Memory &m) const {
    const EmittedKernel &kernel = kernels_.at(number);
    std::vector<std::vector<uint8_t>> storage;
    std::vector<std::unique_ptr<TensorMap>> maps;
    std::vector<void *> p;
    int64_t tiles = 1;
    for (const GridLoop &g : kernel.grid) {
        tiles *= evaluate(g.extent, m);
    }
    auto put = [&](auto v) {
        storage.emplace_back(sizeof v);
        std::memcpy(storage.back().data(), &v, sizeof v);
        p.push_back(storage.back().data());
    };
    for (const KernelParam &k : kernel.params) {
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
        dlsym(library_, fmt::format("launch_{}", number).c_str()));
    const int64_t blocks = kernel.persistent ? std::min<int64_t>(tiles, 2 * kernel.cluster) : tiles;
    if (kernel.shared_bytes > 232448) {
        return "more shared memory than a block may have";
    }
    return f(static_cast<unsigned>(blocks), static_cast<unsigned>(kernel.threads), p.data());
}

} // namespace kiln::tile
