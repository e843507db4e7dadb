/* C11: views of arrays, the answer, and the message of a call that breaks the contract. */
#include "scale.h"

#include <stdio.h>
#include <string.h>

int main(void) {
    float x[13], y[13];
    for (int i = 0; i < 13; i++) {
        x[i] = (float)i;
        y[i] = -1.0f;
    }
    kiln_view vx, vy;
    int64_t extent = 13, fewer = 12;
    kiln_call call = KILN_CALL_INIT;
    if (kiln_view_host(&vx, KILN_FLOAT32, x, 1, &fewer, NULL) != KILN_OK ||
        kiln_view_host(&vy, KILN_FLOAT32, y, 1, &extent, NULL) != KILN_OK) {
        return 1;
    }
    const char *expected = "scale: `x` has 0 to 11 in dimension 0, but the kernel reads 0 to 12 of it";
    if (scale(&call, &vx.buffer, 3.0f, &vy.buffer) != KILN_INVALID_ARGUMENT ||
        strcmp(kiln_last_message(), expected) != 0 || y[0] != -1.0f) {
        fprintf(stderr, "refused wrongly: %s\n", kiln_last_message());
        return 1;
    }
    kiln_view_host(&vx, KILN_FLOAT32, x, 1, &extent, NULL);
    if (scale(NULL, &vx.buffer, 3.0f, &vy.buffer) != KILN_OK || scale_prepare(NULL) != KILN_OK) {
        fprintf(stderr, "%s\n", kiln_last_message());
        return 1;
    }
    for (int i = 0; i < 13; i++) {
        if (y[i] != 3.0f * x[i]) {
            return 1;
        }
    }
    if (scale_info()->variant_count != 2 || strstr(scale_info()->json, "\"generator\": \"scale\"") == NULL) {
        return 1;
    }
    printf("%s; %s\n", kiln_runtime_version(), kiln_last_choice());
    return 0;
}
