#include "scale.h"
#include "scale_cl.h"

/* Runs both kernels; 0 when right. A machine without an OpenCL device counts as right. */
int plugin_run(void);
int plugin_run(void) {
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {0};
    kiln_view vx, vy;
    int64_t n = 5;
    kiln_view_host(&vx, KILN_FLOAT32, x, 1, &n, NULL);
    kiln_view_host(&vy, KILN_FLOAT32, y, 1, &n, NULL);
    if (scale(NULL, &vx.buffer, 2.0f, &vy.buffer) != KILN_OK || y[4] != 10.0f) {
        return 1;
    }
    int status = scale_cl(NULL, &vx.buffer, 4.0f, &vy.buffer);
    if (status == KILN_NO_DEVICE) {
        return 0;
    }
    if (status != KILN_OK || halide_copy_to_host(NULL, &vy.buffer) != 0 || y[4] != 20.0f) {
        return 1;
    }
    /* The device buffers stay alive: closing the plug-in must cope. */
    return 0;
}
