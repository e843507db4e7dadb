#include "TileModule.h"

#include "Lock.h"

#include <cstdlib>

namespace kiln::runtime {

namespace {

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// Kernels have numbers, since another library may lie at a closed one's address.
uint32_t last_id;
TileModule *modules[64];

TileModule *&bucket(uint32_t id) {
    return modules[id % 64];
}

/// Loading allocates, which a capture on another stream of this thread would forbid.
class RelaxedCapture {
public:
    explicit RelaxedCapture(const TileDriver &driver) : driver_(driver) {
        driver_.ThreadExchangeStreamCaptureMode(&mode_);
    }
    ~RelaxedCapture() { driver_.ThreadExchangeStreamCaptureMode(&mode_); }

private:
    const TileDriver &driver_;
    int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
};

int device_number(const TileDriver &cu, int attribute) {
    int device = 0, value = 0;
    cu.CtxGetDevice(&device);
    cu.DeviceGetAttribute(&value, attribute, device);
    return value;
}

bool fail(void *user_context, const TileDriver &cu, const kiln_tile_kernel &kernel, const char *what,
          int error) {
    char buffer[256];
    Text doing(buffer, sizeof(buffer));
    doing("%s for the tile kernel of `%s`", what, kernel.name);
    tile_fault(user_context, cu, buffer, error);
    return false;
}

/// How many blocks the device holds at once.
bool count_resident(void *user_context, const TileDriver &cu, const kiln_tile_kernel &kernel, TileModule &m) {
    int blocks = 0, error = 0;
    int processors = device_number(cu, TileDriver::MultiprocessorCount);
    if (kernel.cluster > 1) {
        LaunchAttribute cluster = {};
        cluster.id = LaunchAttribute::ClusterDimension;
        cluster.cluster = {static_cast<unsigned>(kernel.cluster), 1, 1};
        unsigned grid = static_cast<unsigned>(kernel.cluster) * static_cast<unsigned>(processors);
        LaunchConfig config = {{grid, 1, 1},
                               {static_cast<unsigned>(kernel.threads), 1, 1},
                               static_cast<unsigned>(kernel.shared_bytes),
                               nullptr,
                               &cluster,
                               1};
        error = cu.OccupancyMaxActiveClusters(&blocks, m.function, &config);
        m.resident = int64_t(blocks) * kernel.cluster;
    } else {
        error = cu.OccupancyMaxActiveBlocksPerMultiprocessor(&blocks, m.function, kernel.threads,
                                                             static_cast<size_t>(kernel.shared_bytes));
        m.resident = int64_t(blocks) * processors;
    }
    if (error != 0) {
        return fail(user_context, cu, kernel, "cuOccupancyMaxActiveBlocks", error);
    }
    if (m.resident == 0) {
        report(user_context, KILN_UNSUPPORTED,
               "the device cannot hold one %s of the tile kernel of `%s`: %d threads and %d bytes of shared "
               "memory a block%s",
               kernel.cluster > 1 ? "cluster" : "block", kernel.name, kernel.threads, kernel.shared_bytes,
               kernel.cluster > 1 ? ", too many blocks a cluster or too much of either" : "");
        return false;
    }
    return true;
}

bool load(void *user_context, const TileDriver &cu, const kiln_tile_kernel &kernel, TileModule &m) {
    int have = device_number(cu, TileDriver::MaxSharedBytesOptIn);
    if (kernel.shared_bytes > have) {
        report(user_context, KILN_UNSUPPORTED,
               "the tile kernel of `%s` needs %d bytes of shared memory a block, the device has %d",
               kernel.name, kernel.shared_bytes, have);
        return false;
    }
    RelaxedCapture relaxed(cu);
    if (int error = cu.ModuleLoadData(&m.module, kernel.image)) {
        m.module = nullptr;
        return fail(user_context, cu, kernel, "cuModuleLoadData", error);
    }
    if (int error = cu.ModuleGetFunction(&m.function, m.module, kernel.function)) {
        return fail(user_context, cu, kernel, "cuModuleGetFunction", error);
    }
    if (int error = cu.FuncSetAttribute(m.function, TileDriver::MaxDynamicSharedBytes, kernel.shared_bytes)) {
        return fail(user_context, cu, kernel, "cuFuncSetAttribute (shared memory)", error);
    }
    if (kernel.cluster > 8) { // the size that every device takes
        if (int error = cu.FuncSetAttribute(m.function, TileDriver::NonPortableClusterSize, 1)) {
            return fail(user_context, cu, kernel, "cuFuncSetAttribute (cluster size)", error);
        }
    }
    m.max_grid = device_number(cu, TileDriver::MaxGridX);
    return count_resident(user_context, cu, kernel, m);
}

} // namespace

const TileModule *tile_module(void *user_context, const TileDriver &driver, const kiln_tile_kernel &kernel,
                              void *context) {
    Lock lock(mutex);
    if (*kernel.id == 0) {
        *kernel.id = ++last_id;
    }
    for (TileModule *m = bucket(*kernel.id); m; m = m->next) {
        if (m->id == *kernel.id && m->context == context) {
            return m;
        }
    }
    TileModule *m = static_cast<TileModule *>(calloc(1, sizeof(TileModule)));
    if (!m) {
        report(user_context, KILN_OUT_OF_MEMORY, "no memory for the module of `%s`", kernel.name);
        return nullptr;
    }
    m->id = *kernel.id;
    m->context = context;
    if (!load(user_context, driver, kernel, *m)) {
        if (m->module) {
            driver.ModuleUnload(m->module);
        }
        free(m);
        return nullptr;
    }
    m->next = bucket(m->id);
    bucket(m->id) = m;
    return m;
}

void release_tile_modules(void *context) {
    Lock lock(mutex);
    const TileDriver *driver = nullptr;
    for (TileModule *&head : modules) {
        for (TileModule **at = &head; *at;) {
            TileModule *m = *at;
            if (m->context != context) {
                at = &m->next;
                continue;
            }
            driver = driver ? driver : tile_driver(nullptr);
            if (driver) {
                driver->ModuleUnload(m->module);
            }
            *at = m->next;
            free(m);
        }
    }
}

} // namespace kiln::runtime
