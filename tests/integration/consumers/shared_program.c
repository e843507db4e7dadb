/* Two shared libraries with kernels use one runtime: the message that one of them leaves is the one read here. */
#include "kiln.h"

#include <stdio.h>
#include <string.h>

int left_run(float *x, float *y, int64_t n);
int right_run(float *x, float *y, int64_t n);

int main(void) {
    float x[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, y[9] = {0};
    if (left_run(x, y, 9) != KILN_OK || y[8] != 45.0f || right_run(y, x, 9) != KILN_OK || x[8] != 225.0f) {
        fprintf(stderr, "%s\n", kiln_last_message());
        return 1;
    }
    if (right_run(x, x + 4, 5) != KILN_INVALID_ARGUMENT ||
        strcmp(kiln_last_message(), "right: output `y` shares memory with input `x`, they must be apart") !=
            0) {
        fprintf(stderr, "%s\n", kiln_last_message());
        return 1;
    }
    return 0;
}
