/* Stand-ins for compiled kernels of y = relu(a x + b), one fault each (KILN_FAULT), for check_kernel_test. They say of
 * themselves what a library of Kiln's says, and nothing more. */
#include "kiln_entry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define NAME(suffix) JOIN(KILN_NAME, suffix)

enum {
    GOOD,
    ZEROS,
    CONSTANT,
    IDENTITY,
    HALF,
    BEHIND,
    BEFORE,
    INPUT,
    CRASH,
    HANG,
    ABORT,
    STATUS,
    SLIGHTLY,
    NAN_EATER,
    UNSUPPORTED,
    LAZY,   /* right in its first three calls, then it returns at once */
    MEMORY, /* gives again what it computed in its first call of that size */
    LATE    /* returns before its thread has done the work */
};

static const kiln_entry_dimension free_dimension = {KILN_FREE, KILN_FREE, KILN_FREE};
static const kiln_entry_argument arguments[] = {
    {"x", KILN_INPUT, halide_type_float, 32, 1, 4, &free_dimension},
    {"a", KILN_SCALAR, halide_type_float, 32, 0, 4, NULL},
    {"b", KILN_SCALAR, halide_type_float, 32, 0, 4, NULL},
    {"y", KILN_OUTPUT, halide_type_float, 32, 1, 4, &free_dimension},
};
static const int abi = KILN_ABI_VERSION;
static const kiln_entry_library library = {KILN_ABI_VERSION, 4, 0, "bad", arguments, NULL, "{}", &abi};

struct late_work {
    const float *in;
    float *out;
    float a, b;
    int n;
};

static void *work_late(void *data) {
    struct late_work w = *(struct late_work *)data;
    free(data);
    sleep(1); /* longer than a trial of it takes on a busy machine */
    for (int i = 0; i < w.n; i++) {
        float t = w.a * w.in[i] + w.b;
        w.out[i] = t < 0 ? 0 : t;
    }
    return NULL;
}

/* Whether a cheat has answered the call by itself. */
static int cheat(const float *in, float *out, float a, float b, int n) {
    static int calls;
    static float *kept;
    calls++;
    if (KILN_FAULT == LAZY) {
        return calls > 3;
    }
    if (KILN_FAULT == MEMORY && kept) {
        memcpy(out, kept, (size_t)n * sizeof(float));
        return 1;
    }
    if (KILN_FAULT == MEMORY) {
        kept = malloc((size_t)n * sizeof(float));
        for (int i = 0; i < n; i++) {
            float t = a * in[i] + b;
            kept[i] = t < 0 ? 0 : t;
        }
    }
    if (KILN_FAULT == LATE) {
        struct late_work *w = malloc(sizeof *w);
        pthread_t thread;
        w->in = in, w->out = out, w->a = a, w->b = b, w->n = n;
        return pthread_create(&thread, NULL, work_late, w) == 0;
    }
    return 0;
}

int NAME(_argv)(const kiln_call *call, void **args) {
    halide_buffer_t *x = (halide_buffer_t *)args[0], *y = (halide_buffer_t *)args[3];
    float a = *(float *)args[1], b = *(float *)args[2];
    float *in = (float *)x->host, *out = (float *)y->host;
    int n = y->dim[0].extent;
    (void)call;
    if (cheat(in, out, a, b, n)) {
        return KILN_OK;
    }
    for (int i = 0; i < (KILN_FAULT == HALF ? n / 2 : n); i++) {
        float t = a * in[i] + b, r = t < 0 ? 0 : t;
        out[i] = KILN_FAULT == ZEROS       ? 0
                 : KILN_FAULT == CONSTANT  ? 0.4f
                 : KILN_FAULT == IDENTITY  ? in[i]
                 : KILN_FAULT == SLIGHTLY  ? r * 1.00001f
                 : KILN_FAULT == NAN_EATER ? (t > 0 ? t : 0)
                                           : r;
    }
    if (KILN_FAULT == BEHIND && n) {
        out[n] = 1;
    }
    if (KILN_FAULT == BEFORE && n) {
        out[-1] = 1;
    }
    if (KILN_FAULT == INPUT && n) {
        in[n / 2] += 1;
    }
    if (KILN_FAULT == CRASH) {
        *(volatile int *)8 = 1;
    }
    if (KILN_FAULT == HANG) {
        sleep(60);
    }
    if (KILN_FAULT == ABORT) {
        abort();
    }
    return KILN_FAULT == STATUS ? KILN_DEVICE_ERROR : KILN_FAULT == UNSUPPORTED ? KILN_UNSUPPORTED : KILN_OK;
}

int NAME(_prepare)(const kiln_call *call) {
    (void)call;
    return 0;
}
const kiln_entry_library *NAME(_info)(void) {
    return &library;
}
const char *kiln_last_message(void) {
    return "the driver reported an error";
}
const char *kiln_last_choice(void) {
    return "bad";
}
int halide_set_num_threads(int n) {
    return n;
}
