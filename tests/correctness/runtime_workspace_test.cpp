/** \file
 * NAME_workspace against what calls really ask of their allocator.
 */
#include "runtime_support.h"

#include <atomic>
#include <mutex>

namespace kiln::test {
namespace {

LoadedLibrary scheduled(const std::string &generator, const std::string &target,
                        const std::string &directives) {
    TemporaryFolder folder;
    BuildRequest request = request_for(generator, {target}, folder.path());
    if (!directives.empty()) {
        request.variants[0].schedule_text = "schedule s {\n  op " + generator + "\n  " + directives + "\n}\n";
    }
    return load(request);
}

/// An allocator that knows the most that was out at once.
struct Heap {
    std::mutex mutex;
    int64_t live = 0, peak = 0;

    kiln_call call() {
        kiln_call c = KILN_CALL_INIT;
        c.user = this;
        c.alloc = [](const kiln_call *given, size_t bytes, size_t alignment, int) -> void * {
            Heap &heap = *static_cast<Heap *>(given->user);
            std::lock_guard lock(heap.mutex);
            heap.live += int64_t(bytes);
            heap.peak = std::max(heap.peak, heap.live);
            return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        };
        c.free = [](const kiln_call *given, void *memory, size_t bytes, int) {
            Heap &heap = *static_cast<Heap *>(given->user);
            std::lock_guard lock(heap.mutex);
            heap.live -= int64_t(bytes);
            std::free(memory);
        };
        return c;
    }
};

int workspace_of(LoadedLibrary &lib, std::vector<void *> arguments, kiln_workspace &workspace,
                 const kiln_call *call = nullptr) {
    auto ask = reinterpret_cast<decltype(&kiln_entry_workspace)>(lib.symbol("kiln_entry_workspace"));
    return ask(&lib.info(), call, arguments.data(), &workspace);
}

/// What the library says is what a call takes, and no less.
void expect_exact(LoadedLibrary &lib, int64_t w, int64_t h, int64_t slack = 0) {
    Array<float> x({w, h}), y({w, h});
    x.fill(1);
    kiln_workspace said;
    ASSERT_EQ(workspace_of(lib, {x.buffer(), y.buffer()}, said), KILN_OK) << lib.last_message();
    EXPECT_TRUE(y.untouched());
    Heap heap;
    kiln_call call = heap.call();
    void *arguments[] = {x.buffer(), y.buffer()};
    ASSERT_EQ(lib.call(&call, arguments), KILN_OK) << lib.last_message();
    EXPECT_EQ(heap.live, 0);
    EXPECT_LE(heap.peak, said.host_bytes) << w << "x" << h;
    EXPECT_GE(heap.peak, said.host_bytes - slack) << w << "x" << h;
    EXPECT_EQ(said.device_bytes, 0);
}

TEST(Workspace, AnIntermediateAtRoot) {
    LoadedLibrary lib = scheduled("test_scratch", "cpu", "target cpu\n  twice.compute_root();");
    expect_exact(lib, 100, 7);
    expect_exact(lib, 1, 1);
    expect_exact(lib, 1000, 333);
}

TEST(Workspace, NoIntermediateTakesNothing) {
    LoadedLibrary lib = scheduled("test_scratch", "cpu", "target cpu\n  twice.compute_inline();");
    expect_exact(lib, 100, 7);
    Array<float> x({100, 7}), y({100, 7});
    kiln_workspace said;
    ASSERT_EQ(workspace_of(lib, {x.buffer(), y.buffer()}, said), KILN_OK);
    EXPECT_EQ(said.host_bytes, 0);
}

TEST(Workspace, EachThreadHasItsOwn) {
    // 20000 floats a row: no place on the stack.
    LoadedLibrary lib =
        scheduled("test_scratch", "cpu", "target cpu\n  twice.compute_at(y, j);\n  y.parallel(j);");
    lib.set_threads(1);
    expect_exact(lib, 20000, 9);
    lib.set_threads(2);
    // Whether two rows are ever at work at once is up to the threads.
    expect_exact(lib, 20000, 9, 20000 * 4 + 1024);
    expect_exact(lib, 20000, 1);
}

TEST(Workspace, RowsOfALoopAreCountedOnce) {
    LoadedLibrary lib = scheduled("test_scratch", "cpu", "target cpu\n  twice.compute_at(y, j);");
    expect_exact(lib, 20000, 9);
}

TEST(Workspace, SmallConstantSizesAreOnTheStack) {
    LoadedLibrary lib =
        scheduled("test_scratch", "cpu",
                  "target cpu\n  y.split(i, io, ii, 32, GuardWithIf);\n  twice.compute_at(y, io);");
    expect_exact(lib, 1000, 5);
}

TEST(Workspace, OnOpenCL) {
    LoadedLibrary lib = scheduled("test_scratch_root", "opencl", "");
    kiln_view x, y;
    int64_t extents[] = {33, 1000};
    kiln_view_host(&x, KILN_FLOAT32, nullptr, 2, extents, nullptr);
    kiln_view_host(&y, KILN_FLOAT32, nullptr, 2, extents, nullptr);
    kiln_workspace said;
    int status = workspace_of(lib, {&x.buffer, &y.buffer}, said);
    if (status == KILN_NO_DEVICE) {
        GTEST_SKIP() << "no OpenCL device: which variant runs is not known";
    }
    ASSERT_EQ(status, KILN_OK) << lib.last_message();
    EXPECT_EQ(said.device_bytes, 4000);
    EXPECT_EQ(said.host_bytes, 0);
}

TEST(Workspace, AShapeThatBreaksTheContract) {
    LoadedLibrary &lib = library("test_scratch", "cpu");
    Array<float> x({100, 7, 2}), y({100, 7});
    kiln_workspace said = {7, 7};
    EXPECT_EQ(workspace_of(lib, {x.buffer(), y.buffer()}, said), KILN_INVALID_ARGUMENT);
    EXPECT_EQ(lib.last_message(), "test_scratch: input `x` has 3 dimensions, the kernel needs 2");
    EXPECT_EQ(said.host_bytes, 0);
}

TEST(Workspace, ByTheKernelsOwnFunction) {
    TemporaryFolder folder;
    BuildRequest request = request_for("test_scratch", {"cpu"}, folder.path());
    request.variants[0].schedule_text =
        "schedule s {\n  op test_scratch\n  target cpu\n  twice.compute_root();\n}\n";
    BuildResult built = build_library(request);
    ASSERT_TRUE(built.ok);
    LoadedLibrary lib(built.archive);
    auto ask =
        reinterpret_cast<int (*)(const kiln_call *, halide_buffer_t *, halide_buffer_t *, kiln_workspace *)>(
            lib.symbol("test_scratch_workspace"));
    ASSERT_NE(ask, nullptr);
    Array<float> x({10, 10}), y({10, 10});
    kiln_workspace said;
    ASSERT_EQ(ask(nullptr, x.buffer(), y.buffer(), &said), KILN_OK);
    EXPECT_EQ(said.host_bytes, 400 + KILN_ALLOCATION_HEADER);
    EXPECT_NE(std::string(lib.info().json).find(R"("host_bytes": null)"), std::string::npos)
        << "it depends on the call: " << lib.info().json;
    EXPECT_NE(std::string(lib.info().json).find(R"("device_bytes": 0)"), std::string::npos);
}

} // namespace
} // namespace kiln::test
