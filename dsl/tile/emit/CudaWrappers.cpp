// The instructions that tile kernels use, each as a function of the generated text. Sources: PTX ISA 8.x, and for the
// choice of scopes the measurements in docs/results: a wait with `.cluster` scope costs an L1 invalidation each time.
#include "dsl/tile/emit/CudaDialect.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace kiln::tile {

namespace {

struct Helper {
    const char *text;
    std::vector<std::string> needs;
};

const std::map<std::string, Helper> &helpers() {
    static const std::map<std::string, Helper> table = {
        // ---- addresses
        {"shared_address",
         {"DEV u32 shared_address(const void *p) { u32 a; asm(\"{.reg .u64 t; cvta.to.shared.u64 t, %1; "
          "cvt.u32.u64 "
          "%0, t;}\" : \"=r\"(a) : \"l\"(p)); return a; }",
          {}}},
        // ---- mbarrier
        {"mbar_init",
         {"DEV void mbar_init(u32 b, u32 n) { asm volatile(\"mbarrier.init.shared::cta.b64 [%0], %1;\" "
          "::\"r\"(b), "
          "\"r\"(n) : \"memory\"); }",
          {}}},
        {"mbar_init_fence",
         {"#if __CUDA_ARCH__ >= 900\n"
          "DEV void mbar_init_fence() { asm volatile(\"fence.mbarrier_init.release.cluster;\" ::: "
          "\"memory\"); }\n#else\nDEV void mbar_init_fence() {}\n#endif",
          {}}},
        {"mbar_expect",
         {"DEV void mbar_expect(u32 b, u32 bytes) { asm volatile(\"mbarrier.arrive.expect_tx.shared::cta.b64 "
          "_, [%0], "
          "%1;\" ::\"r\"(b), \"r\"(bytes) : \"memory\"); }",
          {}}},
        {"mbar_arrive",
         {"DEV void mbar_arrive(u32 b) { asm volatile(\"{.reg .b64 t; mbarrier.arrive.shared::cta.b64 t, "
          "[%0];}\" "
          "::\"r\"(b) : \"memory\"); }",
          {}}},
        {"mbar_arrive_remote", // on the barrier at the same address in another block of the cluster
         {"DEV void mbar_arrive_remote(u32 b, u32 block) { asm volatile(\"{.reg .b32 a; "
          "mapa.shared::cluster.u32 "
          "a, %0, "
          "%1;\\n mbarrier.arrive.shared::cluster.b64 _, [a];}\" ::\"r\"(b), \"r\"(block) : \"memory\"); }",
          {}}},
        {"mbar_wait", // the braces keep the labels apart where the function is inlined more than once
         {"#if __CUDA_ARCH__ >= 900\n"
          "DEV void mbar_wait(u32 b, u32 parity) { asm volatile(\"{.reg .pred p;\\nW: "
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\\n @p bra D;\\n bra W;\\nD:}\" ::\"r\"(b), "
          "\"r\"(parity) : \"memory\"); }\n"
          "#else\n"
          "DEV void mbar_wait(u32 b, u32 parity) { asm volatile(\"{.reg .pred p;\\nW: "
          "mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\\n @p bra D;\\n bra W;\\nD:}\" ::\"r\"(b), "
          "\"r\"(parity) : \"memory\"); }\n"
          "#endif",
          {}}},
        // ---- TMA
        {"prefetch_map",
         {"DEV void prefetch_map(const TensorMap &m) { asm volatile(\"prefetch.tensormap [%0];\" ::\"l\"(&m) "
          ": "
          "\"memory\"); }",
          {"TensorMap"}}},
        {"TensorMap", {"struct __align__(64) TensorMap { u64 words[16]; };", {}}},
        {"store_commit",
         {"DEV void store_commit() { asm volatile(\"cp.async.bulk.commit_group;\" ::: \"memory\"); }", {}}},
        {"store_wait", // until the buffers of all but the last N committed stores have been read
         {"template<int N> DEV void store_wait() { asm volatile(\"cp.async.bulk.wait_group.read %0;\" "
          "::\"n\"(N) : "
          "\"memory\"); }",
          {}}},
        {"proxy_fence",
         {"#if __CUDA_ARCH__ >= 900\n"
          "DEV void proxy_fence() { asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\"); "
          "}\n#else\nDEV void proxy_fence() {}\n#endif",
          {}}},
        // ---- cp.async
        {"copy_16",
         {"DEV void copy_16(u32 to, const void *from, int bytes) { asm volatile(\"cp.async.cg.shared.global "
          "[%0], "
          "[%1], 16, %2;\" ::\"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\"); }",
          {}}},
        {"copy_8",
         {"DEV void copy_8(u32 to, const void *from, int bytes) { asm volatile(\"cp.async.ca.shared.global "
          "[%0], "
          "[%1], 8, %2;\" ::\"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\"); }",
          {}}},
        {"copy_4",
         {"DEV void copy_4(u32 to, const void *from, int bytes) { asm volatile(\"cp.async.ca.shared.global "
          "[%0], "
          "[%1], 4, %2;\" ::\"r\"(to), \"l\"(from), \"r\"(bytes) : \"memory\"); }",
          {}}},
        {"copy_arrive", // arrives on the barrier when this thread's copies so far have ended
         {"DEV void copy_arrive(u32 b) { asm volatile(\"cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\" "
          "::\"r\"(b) : \"memory\"); }",
          {}}},
        {"copy_wait", {"DEV void copy_wait() { asm volatile(\"cp.async.wait_all;\" ::: \"memory\"); }", {}}},
        // ---- wgmma
        {"wgmma_fence",
         {"DEV void wgmma_fence() { asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\"); }", {}}},
        {"wgmma_commit",
         {"DEV void wgmma_commit() { asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\"); }",
          {}}},
        {"wgmma_wait",
         {"template<int N> DEV void wgmma_wait() { asm volatile(\"wgmma.wait_group.sync.aligned %0;\" "
          "::\"n\"(N) : "
          "\"memory\"); }",
          {}}},
        {"descriptor", // PTX ISA, "Matrix-descriptor format"; mode: 0 none, 1 128 B, 2 64 B, 3 32 B
         {"DEV u64 descriptor(u32 address, u32 leading, u32 stride, u32 mode) { return (u64)((address & "
          "0x3ffff) >> 4) "
          "| (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)mode << 62; }",
          {}}},
        // ---- matrices between registers and shared memory
        {"ldmatrix_4",
         {"DEV void ldmatrix_4(u32 (&w)[4], u32 a) { asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
          "{%0, %1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"r\"(a) : "
          "\"memory\"); }",
          {}}},
        {"ldmatrix_4t",
         {"DEV void ldmatrix_4t(u32 (&w)[4], u32 a) { asm "
          "volatile(\"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
          "{%0, %1, %2, %3}, [%4];\" : \"=r\"(w[0]), \"=r\"(w[1]), \"=r\"(w[2]), \"=r\"(w[3]) : \"r\"(a) : "
          "\"memory\"); }",
          {}}},
        {"stmatrix_4",
         {"DEV void stmatrix_4(u32 a, u32 x, u32 y, u32 z, u32 w) { asm "
          "volatile(\"stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\" ::\"r\"(a), "
          "\"r\"(x), "
          "\"r\"(y), \"r\"(z), \"r\"(w) : \"memory\"); }",
          {}}},
        {"stmatrix_2",
         {"DEV void stmatrix_2(u32 a, u32 x, u32 y) { asm "
          "volatile(\"stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], "
          "{%1, %2};\" ::\"r\"(a), \"r\"(x), \"r\"(y) : \"memory\"); }",
          {}}},
        {"stmatrix_4t",
         {"DEV void stmatrix_4t(u32 a, u32 x, u32 y, u32 z, u32 w) { asm "
          "volatile(\"stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};\" ::\"r\"(a), "
          "\"r\"(x), "
          "\"r\"(y), \"r\"(z), \"r\"(w) : \"memory\"); }",
          {}}},
        {"stmatrix_2t",
         {"DEV void stmatrix_2t(u32 a, u32 x, u32 y) { asm "
          "volatile(\"stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 "
          "[%0], {%1, %2};\" ::\"r\"(a), \"r\"(x), \"r\"(y) : \"memory\"); }",
          {}}},
        // ---- threads
        {"registers_up",
         {"#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n"
          "template<int N> DEV void registers_up() { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 %0;\" "
          "::\"n\"(N)); "
          "}\n#else\ntemplate<int N> DEV void registers_up() {}\n#endif",
          {}}},
        {"registers_down",
         {"#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n"
          "template<int N> DEV void registers_down() { asm volatile(\"setmaxnreg.dec.sync.aligned.u32 %0;\" "
          "::\"n\"(N)); }\n#else\ntemplate<int N> DEV void registers_down() {}\n#endif",
          {}}},
        {"bar_sync",
         {"DEV void bar_sync(int id, int threads) { asm volatile(\"bar.sync %0, %1;\" ::\"r\"(id), "
          "\"r\"(threads) : "
          "\"memory\"); }",
          {}}},
        {"bar_arrive",
         {"DEV void bar_arrive(int id, int threads) { asm volatile(\"bar.arrive %0, %1;\" ::\"r\"(id), "
          "\"r\"(threads) : \"memory\"); }",
          {}}},
        {"settled", // no instruction: what follows depends on sums that are there
         {"template<int N> DEV void settled(float (&sums)[N]) {\n#pragma unroll\n    for (int i = 0; i < N; "
          "i++) asm "
          "volatile(\"\" : \"+f\"(sums[i]) :: \"memory\");\n}",
          {}}},
        {"bar_or", // meets as bar_sync does, and says whether any thread came with a yes
         {"DEV int bar_or(int id, int threads, int yes) { int any; asm volatile(\"{.reg .pred p, q; "
          "setp.ne.s32 p, "
          "%3, 0;\\n"
          "bar.red.or.pred q, %1, %2, p; selp.s32 %0, 1, 0, q;}\" : \"=r\"(any) : \"r\"(id), \"r\"(threads), "
          "\"r\"(yes) : "
          "\"memory\"); return any; }",
          {}}},
        {"comes_last", // counts; the last sets the counter back
         {"DEV int comes_last(int *counter, int parts) {\n"
          "    __threadfence();\n"
          "    if (atomicAdd(counter, 1) != parts - 1) return 0;\n"
          "    *counter = 0;\n    return 1;\n}",
          {}}},
        {"cluster_start", // all blocks of the cluster run and have made their barriers
         {"DEV void cluster_start() { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\\n"
          "barrier.cluster.wait.acquire.aligned;\" ::: \"memory\"); }",
          {}}},
        {"cluster_sync", // and what they wrote to shared memory is seen
         {"DEV void cluster_sync() { asm volatile(\"barrier.cluster.arrive.release.aligned;\\n"
          "barrier.cluster.wait.acquire.aligned;\" ::: \"memory\"); }",
          {}}},
        {"cluster_arrive", // this block runs
         {"DEV void cluster_arrive() { asm volatile(\"barrier.cluster.arrive.relaxed.aligned;\" ::: "
          "\"memory\"); }",
          {}}},
        {"cluster_wait", // and all others of the cluster do
         {"DEV void cluster_wait() { asm volatile(\"barrier.cluster.wait.acquire.aligned;\" ::: \"memory\"); "
          "}",
          {}}},
        {"store_in_block", // at the same place of another block's shared memory
         {"DEV void store_in_block(u32 at, u32 x, u32 block) { asm volatile(\"{.reg .b32 a; "
          "mapa.shared::cluster.u32 "
          "a, %0, %2;\\n st.shared::cluster.u32 [a], %1;}\" ::\"r\"(at), \"r\"(x), \"r\"(block) : "
          "\"memory\"); }",
          {}}},
        {"cluster_rank",
         {"DEV u32 cluster_rank() { u32 r; asm volatile(\"mov.u32 %0, %%cluster_ctarank;\" : \"=r\"(r)); "
          "return r; }",
          {}}},
        {"launch_next",
         {"#if __CUDA_ARCH__ >= 900\n"
          "DEV void launch_next() { asm volatile(\"griddepcontrol.launch_dependents;\" ::: \"memory\"); "
          "}\n#else\nDEV void launch_next() {}\n#endif",
          {}}},
        {"wait_for_previous",
         {"#if __CUDA_ARCH__ >= 900\n"
          "DEV void wait_for_previous() { asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"); "
          "}\n#else\nDEV void wait_for_previous() {}\n#endif",
          {}}},
        {"shuffle_xor",
         {"template<typename T> DEV T shuffle_xor(T x, int mask) { return __shfl_xor_sync(~0u, x, mask); }",
          {}}},
        {"any_lane", {"DEV int any_lane(int x) { return __any_sync(~0u, x); }", {}}},
        // ---- numbers
        {"whole_div", // Halide's: the remainder is never negative, and x / 0 is 0
         {"DEV int whole_div(int a, int b) { if (b == 0) return 0; const int q = a / b, r = a - q * b; "
          "return r < 0 ? "
          "(b > 0 ? q - 1 : q + 1) : q; }",
          {}}},
        {"whole_mod",
         {"DEV int whole_mod(int a, int b) { if (b == 0) return 0; const int r = a % b; return r < 0 ? (b > "
          "0 ? r + b : "
          "r - b) : r; }",
          {}}},
        {"whole_div_l",
         {"DEV i64 whole_div_l(i64 a, i64 b) { if (b == 0) return 0; const i64 q = a / b, r = a - q * b; "
          "return r < 0 ? "
          "(b > 0 ? q - 1 : q + 1) : q; }",
          {}}},
        {"whole_mod_l",
         {"DEV i64 whole_mod_l(i64 a, i64 b) { if (b == 0) return 0; const i64 r = a % b; return r < 0 ? (b "
          "> 0 ? r + b "
          ": r - b) : r; }",
          {}}},
        {"whole_div_u",
         {"template<typename T> DEV T whole_div_u(T a, T b) { return b == 0 ? 0 : a / b; }", {}}},
        {"whole_mod_u",
         {"template<typename T> DEV T whole_mod_u(T a, T b) { return b == 0 ? 0 : a % b; }", {}}},
        {"divide_by", // a / b for the reciprocal (2^64 - 1) / b + 1 of b, which is 0 for 1: exact for all u32
         {"DEV u32 divide_by(u32 a, u64 reciprocal) { return reciprocal == 0 ? a : (u32)(((u64)a * "
          "(u32)(reciprocal >> "
          "32) + ((u64)a * (u32)reciprocal >> 32)) >> 32); }",
          {}}},
        {"half_of", {"DEV u32 half_of(u32 w, int high) { return high ? w >> 16 : w & 0xffff; }", {}}},
        {"byte_of", {"DEV u32 byte_of(u32 w, int i) { return w >> i * 8 & 0xff; }", {}}},
        {"bf16_to_f32", {"DEV float bf16_to_f32(u32 bits) { return __uint_as_float(bits << 16); }", {}}},
        {"f32_to_bf16",
         {"DEV u16 f32_to_bf16(float x) { u16 r; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x)); "
          "return r; }",
          {}}},
        {"f16_to_f32",
         {"DEV float f16_to_f32(u32 bits) { float r; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : "
          "\"h\"((u16)bits)); "
          "return r; }",
          {}}},
        {"f32_to_f16",
         {"DEV u16 f32_to_f16(float x) { u16 r; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r) : \"f\"(x)); "
          "return r; }",
          {}}},
        {"pack_bf16",
         {"DEV u32 pack_bf16(float low, float high) { u32 r; asm(\"cvt.rn.bf16x2.f32 %0, %1, %2;\" : "
          "\"=r\"(r) : "
          "\"f\"(high), \"f\"(low)); return r; }",
          {}}},
        {"pack_f16",
         {"DEV u32 pack_f16(float low, float high) { u32 r; asm(\"cvt.rn.f16x2.f32 %0, %1, %2;\" : \"=r\"(r) "
          ": "
          "\"f\"(high), \"f\"(low)); return r; }",
          {}}},
        {"exp2_approx",
         {"DEV float exp2_approx(float x) { float r; asm(\"ex2.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
          "\"f\"(x)); return "
          "r; }",
          {}}},
        {"divide",
         {"DEV float divide(float a, float b) { float r; asm(\"div.full.ftz.f32 %0, %1, %2;\" : \"=f\"(r) : "
          "\"f\"(a), "
          "\"f\"(b)); return r; }",
          {}}},
        {"reciprocal",
         {"DEV float reciprocal(float x) { float r; asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
          "\"f\"(x)); return "
          "r; }",
          {}}},
        {"square_root",
         {"DEV float square_root(float x) { float r; asm(\"sqrt.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
          "\"f\"(x)); "
          "return r; }",
          {}}},
        {"reciprocal_root",
         {"DEV float reciprocal_root(float x) { float r; asm(\"rsqrt.approx.ftz.f32 %0, %1;\" : \"=f\"(r) : "
          "\"f\"(x)); "
          "return r; }",
          {}}},
        {"one_plus_tanh", // 2 / (1 + e^(-2x))
         {"DEV float one_plus_tanh(float x) { return 2.0f * reciprocal(1.0f + exp2_approx(-2.88539008f * "
          "x)); }",
          {"reciprocal", "exp2_approx"}}},
        {"max_nan",
         {"DEV float max_nan(float a, float b) { float r; asm(\"max.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : "
          "\"f\"(a), "
          "\"f\"(b)); return r; }",
          {}}},
        {"min_nan",
         {"DEV float min_nan(float a, float b) { float r; asm(\"min.NaN.f32 %0, %1, %2;\" : \"=f\"(r) : "
          "\"f\"(a), "
          "\"f\"(b)); return r; }",
          {}}},
        {"max_f64",
         {"DEV double max_f64(double a, double b) { return a != a ? a : b != b ? b : a > b ? a : b; }", {}}},
        {"min_f64",
         {"DEV double min_f64(double a, double b) { return a != a ? a : b != b ? b : a < b ? a : b; }", {}}},
    };
    return table;
}

/// "%3, %4, %5" and so on.
std::string operands(int first, int count) {
    std::string s;
    for (int i = 0; i < count; i++) {
        s += fmt::format("{}%{}", i ? ", " : "", first + i);
    }
    return s;
}

const char *type_of_wgmma(Halide::Type t) {
    if (t.is_bfloat()) {
        return "bf16";
    }
    if (t.is_float()) {
        return t.bits() == 16 ? "f16" : "tf32";
    }
    return t.is_int() ? "s8" : "u8";
}

} // namespace

std::vector<std::string> CudaDialect::names() {
    std::vector<std::string> all;
    for (const auto &[name, helper] : helpers()) {
        all.push_back(name);
    }
    return all;
}

void CudaDialect::add(const std::string &name, const std::string &text) {
    if (used_.insert(name).second) {
        text_ += text + "\n";
    }
}

const std::string &CudaDialect::use(const std::string &name) {
    auto h = helpers().find(name);
    if (h == helpers().end()) {
        throw std::logic_error("no wrapper " + name);
    }
    if (!used_.count(name)) {
        for (const std::string &needed : h->second.needs) {
            use(needed);
        }
        add(name, h->second.text);
    }
    return h->first;
}

std::string CudaDialect::prelude() const {
    return "typedef unsigned u32;\ntypedef unsigned long long u64;\ntypedef unsigned short u16;\n"
           "typedef long long i64;\n#define SHARED\n#define DEV static __device__ __forceinline__\n"
           "#define INFINITY_F32 __int_as_float(0x7f800000)\n#define NAN_F32 __int_as_float(0x7fc00000)\n" +
           text_;
}

std::string CudaDialect::wgmma(const WgmmaShape &s) {
    const bool half = is_half(s.type), whole = s.type.is_int_or_uint();
    const int depth = 32 / s.type.bytes(), count = s.n / 2;
    const char *type = type_of_wgmma(s.type);
    const std::string name =
        fmt::format("wgmma_{}_m64n{}k{}_{}{}{}", s.a_in_registers ? "rs" : "ss", s.n, depth, type,
                    s.a_transposed ? "_at" : "", s.b_transposed ? "_bt" : "");
    const std::string element = whole ? "int" : "float", constraint = whole ? "+r" : "+f";
    std::string outputs;
    for (int i = 0; i < count; i++) {
        outputs += fmt::format("{}\"{}\"(d[{}])", i ? ", " : "", constraint, i);
    }
    const int a_words = s.a_in_registers ? 4 : 1;
    const std::string a = s.a_in_registers ? "{" + operands(count, 4) + "}" : operands(count, 1);
    // Scales of A and B are 1; transposition is there for 16-bit types.
    std::string flags = whole ? "" : ", 1, 1";
    if (half) {
        flags += s.a_in_registers ? fmt::format(", {}", int(s.b_transposed))
                                  : fmt::format(", {}, {}", int(s.a_transposed), int(s.b_transposed));
    }
    add(name,
        fmt::format(
            "DEV void {}({} *d, {}, u64 b, int add) {{\n"
            "    asm volatile(\"{{.reg .pred p; setp.ne.b32 p, %{}, 0;\\n\"\n"
            "                 \"wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {{{}}}, {}, %{}, p{};}}\"\n"
            "                 : {}\n                 : {}, \"l\"(b), \"r\"(add));\n}}",
            name, element, s.a_in_registers ? "u32 a0, u32 a1, u32 a2, u32 a3" : "u64 a", count + a_words + 1,
            s.n, depth, whole ? "s32" : "f32", type, type, operands(0, count), a, count + a_words, flags,
            outputs, s.a_in_registers ? "\"r\"(a0), \"r\"(a1), \"r\"(a2), \"r\"(a3)" : "\"l\"(a)"));
    return name;
}

std::string CudaDialect::mma_sync(Halide::Type t) {
    const char *type = type_of_wgmma(t);
    const std::string name = fmt::format("mma_sync_m16n8k16_{}", type);
    add(name, fmt::format("DEV void {}(float *d, const u32 *a, u32 b0, u32 b1) {{\n"
                          "    asm volatile(\"mma.sync.aligned.m16n8k16.row.col.f32.{}.{}.f32 {{%0, %1, %2, "
                          "%3}}, {{%4, %5, "
                          "%6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};\"\n"
                          "                 : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3])\n"
                          "                 : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b0), "
                          "\"r\"(b1));\n}}",
                          name, type, type));
    return name;
}

std::string CudaDialect::tma_load(int rank, bool multicast) {
    use("TensorMap");
    const std::string name = fmt::format("tma_load_{}d{}", rank, multicast ? "_multicast" : "");
    std::string at, inputs;
    for (int i = 0; i < rank; i++) {
        at += fmt::format(", int x{}", i);
        inputs += fmt::format(", \"r\"(x{})", i);
    }
    add(name, fmt::format(
                  "DEV void {}(u32 to, const TensorMap &map, u32 barrier{}{}) {{\n"
                  "    asm volatile(\"cp.async.bulk.tensor.{}d.shared::cluster.global.mbarrier::complete_tx::"
                  "bytes{} [%0], [%1, {{{}}}], [%2]{};\"\n"
                  "                 ::\"r\"(to), \"l\"(&map), \"r\"(barrier){}{} : \"memory\");\n}}",
                  name, at, multicast ? ", u16 blocks" : "", rank, multicast ? ".multicast::cluster" : "",
                  operands(3, rank), multicast ? fmt::format(", %{}", 3 + rank) : "", inputs,
                  multicast ? ", \"h\"(blocks)" : ""));
    return name;
}

std::string CudaDialect::tma_store(int rank) {
    use("TensorMap");
    const std::string name = fmt::format("tma_store_{}d", rank);
    std::string at, inputs;
    for (int i = 0; i < rank; i++) {
        at += fmt::format(", int x{}", i);
        inputs += fmt::format(", \"r\"(x{})", i);
    }
    add(name,
        fmt::format("DEV void {}(const TensorMap &map, u32 from{}) {{\n"
                    "    asm volatile(\"cp.async.bulk.tensor.{}d.global.shared::cta.bulk_group [%0, {{{}}}], "
                    "[%1];\"\n"
                    "                 ::\"l\"(&map), \"r\"(from){} : \"memory\");\n}}",
                    name, at, rank, operands(2, rank), inputs));
    return name;
}

} // namespace kiln::tile
