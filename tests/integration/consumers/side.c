#include HEADER

#define PASTE(a, b) a##b
#define NAME(side) PASTE(side, _run)
int NAME(SIDE)(float *x, float *y, int64_t n);
int NAME(SIDE)(float *x, float *y, int64_t n) {
    kiln_view vx, vy;
    kiln_view_host(&vx, KILN_FLOAT32, x, 1, &n, NULL);
    kiln_view_host(&vy, KILN_FLOAT32, y, 1, &n, NULL);
    return SIDE(NULL, &vx.buffer, 5.0f, &vy.buffer);
}
