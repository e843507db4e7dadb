/** \file
 * The launch of a tile kernel: see kiln_tile.h.
 */
#include "Check.h"
#include "TileLaunch.h"
#include "TileModule.h"
#include "TileTensorMap.h"

#include <cstring>

using namespace kiln::runtime;

extern "C" {
int halide_cuda_acquire_context(void *user_context, void **context, bool create);
int halide_cuda_release_context(void *user_context);
int halide_cuda_get_stream(void *user_context, void *context, void **stream);
}

namespace {

/// The context of the call, made current for a while.
class Current {
public:
    Current(void *user_context, const TileDriver &driver) : user_context_(user_context), driver_(driver) {
        if (halide_cuda_acquire_context(user_context, &context_, true) != 0) {
            return; // reported
        }
        acquired_ = true;
        if (int error = driver.CtxPushCurrent(context_)) {
            tile_fault(user_context, driver, "cuCtxPushCurrent", error);
            return;
        }
        pushed_ = true;
    }
    ~Current() {
        void *old = nullptr;
        if (pushed_) {
            driver_.CtxPopCurrent(&old);
        }
        if (acquired_) {
            halide_cuda_release_context(user_context_);
        }
    }
    bool ok() const { return pushed_; }
    void *context() const { return context_; }

private:
    void *user_context_, *context_ = nullptr;
    const TileDriver &driver_;
    bool acquired_ = false, pushed_ = false;
};

/// Memory of one launch, in the order of the stream. Its own each time: launches of one kernel on several streams, or of a
/// graph beside its stream, would share kept one.
class Scratch {
public:
    explicit Scratch(void *user_context) : user_context_(user_context) {
        buffer_.dim = &dim_;
        buffer_.dimensions = 1;
        buffer_.type = halide_type_of<int32_t>();
    }
    Scratch(const Scratch &) = delete;
    ~Scratch() {
        if (buffer_.device) {
            halide_device_free(user_context_, &buffer_);
        }
    }
    /// `ints` of 32 bits.
    int make(int64_t ints) {
        dim_ = {0, static_cast<int32_t>(ints), 1, 0};
        return halide_device_malloc(user_context_, &buffer_, halide_cuda_device_interface());
    }
    int clear(const TileDriver &driver, void *stream) {
        int error = driver.MemsetD32Async(buffer_.device, 0, static_cast<size_t>(dim_.extent), stream);
        return error ? tile_fault(user_context_, driver, "cuMemsetD32Async", error) : 0;
    }
    uint64_t address() const { return buffer_.device; }

private:
    void *user_context_;
    halide_buffer_t buffer_ = {};
    halide_dimension_t dim_ = {};
};

/// What cuLaunchKernelEx takes of the parameters.
struct Arguments {
    TensorMap maps[KILN_TILE_MAX_PARAMS];
    uint64_t words[KILN_TILE_MAX_PARAMS];
    void *pointers[KILN_TILE_MAX_PARAMS];
};

/// The product of the grid: -1 where it exceeds 63 bits.
int64_t tiles_of(const int64_t *grid, int32_t count) {
    int64_t tiles = 1;
    for (int32_t i = 0; i < count; i++) {
        if (grid[i] <= 0) {
            return 0;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        if (__builtin_mul_overflow(tiles, grid[i], &tiles)) {
            return -1;
        }
    }
    return tiles;
}

/// Any device address, for descriptors of views that have no elements.
uint64_t some_address(const kiln_tile_view *views, int32_t count) {
    for (int32_t i = 0; i < count; i++) {
        if (views[i].buffer->device % 16 == 0 && views[i].buffer->device != 0) {
            return views[i].buffer->device;
        }
    }
    return 16;
}

class Launch {
public:
    Launch(const TileCall &call, const TileDriver &driver)
        : call_(call), uc_(call.user_context), cu_(driver),
          kernel_(call.kernel), scratch_{Scratch(uc_), Scratch(uc_), Scratch(uc_), Scratch(uc_),
                                         Scratch(uc_), Scratch(uc_), Scratch(uc_), Scratch(uc_)} {}

    int run() {
        Current current(uc_, cu_);
        if (!current.ok()) {
            return KILN_NO_DEVICE;
        }
        const TileModule *module = tile_module(uc_, cu_, kernel_, current.context());
        if (!module) {
            return KILN_DEVICE_ERROR;
        }
        int64_t blocks = 0;
        if (int code = blocks_for(*module, blocks)) {
            return code;
        }
        void *stream = nullptr;
        if (halide_cuda_get_stream(uc_, current.context(), &stream) != 0) {
            return KILN_DEVICE_ERROR;
        }
        if (int code = give_tile_memory(call_)) {
            return code;
        }
        if (int code = evaluate(stream)) {
            return code;
        }
        return start(*module, blocks, stream);
    }

private:
    int blocks_for(const TileModule &module, int64_t &blocks) {
        const int64_t cluster = kernel_.cluster > 1 ? kernel_.cluster : 1, tiles = call_.tiles;
        // A block of a cluster without a tile of its own still takes part in the cluster.
        int64_t whole =
            tiles < 0 || tiles > INT64_MAX - cluster ? -1 : (tiles + cluster - 1) / cluster * cluster;
        blocks = kernel_.persistent && (whole < 0 || whole > module.resident) ? module.resident : whole;
        if (tiles > INT32_MAX || tiles < 0 || blocks > module.max_grid) {
            return refuse_tile_grid(call_, module.max_grid);
        }
        if (kernel_.cooperative && blocks > module.resident) {
            return report(
                uc_, KILN_UNSUPPORTED,
                "the tile kernel of `%s` needs all its %lld blocks to run at once, the device holds %lld",
                kernel_.name, static_cast<long long>(blocks), static_cast<long long>(module.resident));
        }
        return 0;
    }

    int evaluate(void *stream) {
        uint64_t somewhere = some_address(call_.views, call_.view_count);
        for (int32_t i = 0; i < call_.param_count; i++) {
            const kiln_tile_param &p = call_.params[i];
            arguments_.pointers[i] = &arguments_.words[i];
            arguments_.words[i] = static_cast<uint64_t>(p.value);
            switch (p.kind) {
            case KILN_TILE_TENSOR_MAP:
                if (int code =
                        make_tensor_map(uc_, cu_, call_.views[p.view], p, somewhere, arguments_.maps[i])) {
                    return code;
                }
                arguments_.pointers[i] = &arguments_.maps[i];
                break;
            case KILN_TILE_POINTER:
                arguments_.words[i] = call_.views[p.view].buffer->device;
                break;
            case KILN_TILE_INT:
                if (int code = check_tile_int(call_, p)) {
                    return code;
                }
                break;
            case KILN_TILE_RECIPROCAL:
                arguments_.words[i] = tile_reciprocal(p);
                break;
            case KILN_TILE_COUNTER:
                if (int code = scratch(2, true, stream, arguments_.words[i])) {
                    return code;
                }
                break;
            case KILN_TILE_WORKSPACE:
                if (int code = scratch((p.value + 3) / 4, false, stream, arguments_.words[i])) {
                    return code;
                }
                break;
            case KILN_TILE_COUNTERS:
                if (int code = scratch(p.value, true, stream, arguments_.words[i])) {
                    return code;
                }
                break;
            default:
                break;
            }
        }
        return 0;
    }

    int scratch(int64_t ints, bool zero, void *stream, uint64_t &address) {
        if (ints > INT32_MAX) {
            return report(
                uc_, KILN_INVALID_ARGUMENT,
                "the tile kernel of `%s` would need %lld bytes of workspace in this call: split it into "
                "fewer parts",
                kernel_.name, static_cast<long long>(ints) * 4);
        }
        if (scratch_used_ == max_scratch) {
            return report(uc_, KILN_INTERNAL_ERROR, "the tile kernel of `%s` has more than %d workspaces",
                          kernel_.name, max_scratch);
        }
        Scratch &s = scratch_[scratch_used_++];
        int code = s.make(ints > 0 ? ints : 1);
        code = code == 0 && zero ? s.clear(cu_, stream) : code;
        address = s.address();
        return code;
    }

    int start(const TileModule &module, int64_t blocks, void *stream) {
        LaunchAttribute attributes[3] = {};
        unsigned n = 0;
        if (kernel_.cluster > 1) {
            attributes[n].id = LaunchAttribute::ClusterDimension;
            attributes[n++].cluster = {static_cast<unsigned>(kernel_.cluster), 1, 1};
        }
        if (kernel_.cooperative) {
            attributes[n].id = LaunchAttribute::Cooperative;
            attributes[n++].flag = 1;
        }
        if (kernel_.launch_ahead) {
            attributes[n].id = LaunchAttribute::ProgrammaticStreamSerialization;
            attributes[n++].flag = 1;
        }
        LaunchConfig config = {{static_cast<unsigned>(blocks), 1, 1},
                               {static_cast<unsigned>(kernel_.threads), 1, 1},
                               static_cast<unsigned>(kernel_.shared_bytes),
                               stream,
                               attributes,
                               n};
        int error = cu_.LaunchKernelEx(&config, module.function, arguments_.pointers, nullptr);
        if (error == 0) {
            return 0;
        }
        char buffer[384];
        Text doing(buffer, sizeof(buffer));
        doing("cuLaunchKernelEx for the tile kernel of `%s` (%lld blocks of %d threads, %d bytes of shared "
              "memory",
              kernel_.name, static_cast<long long>(blocks), kernel_.threads, kernel_.shared_bytes);
        if (kernel_.cluster > 1) {
            doing(", clusters of %d", kernel_.cluster);
        }
        doing(")");
        return tile_fault(uc_, cu_, buffer, error);
    }

    const TileCall &call_;
    void *uc_;
    const TileDriver &cu_;
    const kiln_tile_kernel &kernel_;
    static constexpr int max_scratch = 8;
    Scratch scratch_[max_scratch];
    int scratch_used_ = 0;
    Arguments arguments_;
};

bool touches_nothing(const kiln_tile_view &view) {
    for (int d = 0; !view.is_output && d < view.buffer->dimensions; d++) {
        if (view.box[d][1] < view.box[d][0]) {
            return true;
        }
    }
    return false;
}

int32_t narrow(int64_t value) {
    return static_cast<int32_t>(value < INT32_MIN ? INT32_MIN : value > INT32_MAX ? INT32_MAX : value);
}

} // namespace

namespace kiln::runtime {

const halide_device_interface_t *tile_interface(const kiln_tile_kernel &kernel) {
    return kernel.backend == KILN_TILE_OPENCL ? halide_opencl_device_interface()
                                              : halide_cuda_device_interface();
}

int give_tile_memory(const TileCall &call) {
    for (int32_t i = 0; i < call.view_count; i++) {
        halide_buffer_t &b = *call.views[i].buffer;
        int code = 0;
        if (call.views[i].is_output) {
            code = kiln_tile_allocate(call.user_context, &call.kernel, &b);
        } else if (element_count(b) > 0 && (!b.device || b.host_dirty())) {
            // Halide does not copy what only an extern stage reads.
            code = halide_copy_to_device(call.user_context, &b, tile_interface(call.kernel));
        }
        if (code) {
            return code;
        }
    }
    return 0;
}

int refuse_tile_grid(const TileCall &call, int64_t most) {
    char buffer[256];
    Text text(buffer, sizeof(buffer));
    for (int32_t i = 0; i < call.grid_count; i++) {
        text("%s%lld", i ? " x " : "", static_cast<long long>(call.grid[i]));
    }
    return report(
        call.user_context, KILN_INVALID_ARGUMENT,
        "the tile kernel of `%s` would need %s blocks, at most %lld can be launched: use larger tiles "
        "or split the call",
        call.kernel.name, buffer, static_cast<long long>(most));
}

int check_tile_int(const TileCall &call, const kiln_tile_param &param) {
    if (param.value == static_cast<int32_t>(param.value)) {
        return 0;
    }
    return report(call.user_context, KILN_INVALID_ARGUMENT,
                  "the tile kernel of `%s` counts in 32 bits, but `%s` is %lld in this call",
                  call.kernel.name, param.text, static_cast<long long>(param.value));
}

uint64_t tile_reciprocal(const kiln_tile_param &param) {
    return UINT64_MAX / static_cast<uint64_t>(param.value > 1 ? param.value : 1) + 1;
}

} // namespace kiln::runtime

extern "C" {

int kiln_tile_query(const kiln_tile_view *views, int32_t view_count) {
    bool any = false;
    for (int32_t i = 0; i < view_count; i++) {
        any |= views[i].buffer->is_bounds_query();
    }
    for (int32_t i = 0; any && i < view_count; i++) {
        halide_buffer_t &b = *views[i].buffer;
        if (!b.is_bounds_query()) {
            continue;
        }
        bool nothing = touches_nothing(views[i]);
        for (int d = 0; d < b.dimensions; d++) {
            // Of an output the query says what is wanted.
            int64_t first = views[i].is_output ? b.dim[d].min : views[i].box[d][0];
            int64_t last = views[i].is_output ? first + b.dim[d].extent - 1
                           : nothing          ? -1
                                              : views[i].box[d][1];
            first = first > 0 || nothing ? 0 : first;
            b.dim[d].min = narrow(first);
            b.dim[d].extent = narrow(last - first + 1);
        }
    }
    return any;
}

int kiln_tile_check(void *user_context, const kiln_tile_kernel *kernel, const kiln_tile_view *views,
                    int32_t view_count) {
    for (int32_t i = 0; i < view_count; i++) {
        const kiln_tile_view &v = views[i];
        bool unread = touches_nothing(v);
        for (int d = 0; d < v.buffer->dimensions && !unread; d++) {
            int64_t first = v.buffer->dim[d].min, last = first + v.buffer->dim[d].extent - 1;
            if (!v.is_output && (v.box[d][0] < first || v.box[d][1] > last)) {
                return report(
                    user_context, KILN_INVALID_ARGUMENT,
                    "`%s` has %lld to %lld in dimension %d, but the kernel reads %lld to %lld of it", v.name,
                    static_cast<long long>(first), static_cast<long long>(last), d,
                    static_cast<long long>(v.box[d][0]), static_cast<long long>(v.box[d][1]));
            }
            if (first != 0) {
                return report(user_context, KILN_INVALID_ARGUMENT,
                              "`%s` begins at %lld in dimension %d, the tile kernel of `%s` needs 0", v.name,
                              static_cast<long long>(first), d, kernel->name);
            }
        }
    }
    return 0;
}

int kiln_tile_refuse(void *user_context, const kiln_tile_kernel *kernel, const char *condition) {
    return report(user_context, KILN_INVALID_ARGUMENT, "the tile kernel of `%s` is made for calls with %s",
                  kernel->name, condition);
}

int kiln_tile_allocate(void *user_context, const kiln_tile_kernel *kernel, halide_buffer_t *buffer) {
    return buffer->device ? 0 : halide_device_malloc(user_context, buffer, tile_interface(*kernel));
}

int kiln_tile_launch(void *user_context, const kiln_tile_kernel *kernel, const kiln_tile_view *views,
                     int32_t view_count, const int64_t *grid, int32_t grid_count,
                     const kiln_tile_param *params, int32_t param_count) {
    int64_t tiles = tiles_of(grid, grid_count);
    if (tiles == 0) {
        return 0;
    }
    if (param_count > KILN_TILE_MAX_PARAMS) {
        return report(user_context, KILN_INTERNAL_ERROR, "the tile kernel of `%s` has %d parameters",
                      kernel->name, param_count);
    }
    const TileCall call = {user_context, *kernel, views,  view_count, grid,
                           grid_count,   tiles,   params, param_count};
    int code = KILN_NO_DEVICE;
    if (kernel->backend == KILN_TILE_OPENCL) {
        code = opencl_tile_launch(call);
    } else if (const TileDriver *driver = tile_driver(user_context)) {
        code = Launch(call, *driver).run();
    }
    for (int32_t i = 0; i < view_count && code == 0; i++) {
        if (views[i].is_output) { // all of it is written: what the host had there is no newer
            views[i].buffer->set_host_dirty(false);
            views[i].buffer->set_device_dirty(true);
        }
    }
    return code;
}

int kiln_tile_prepare(void *user_context, const kiln_tile_kernel *kernel) {
    if (kernel->backend == KILN_TILE_OPENCL) {
        return opencl_tile_prepare(user_context, *kernel);
    }
    const TileDriver *driver = tile_driver(user_context);
    if (!driver) {
        return KILN_NO_DEVICE;
    }
    Current current(user_context, *driver);
    return current.ok() && tile_module(user_context, *driver, *kernel, current.context())
               ? 0
               : static_cast<int>(KILN_DEVICE_ERROR);
}
}
