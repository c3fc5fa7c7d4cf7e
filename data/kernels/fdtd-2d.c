/* electric and magnetic fields in two dimensions, finite differences in time */
#include "kernel.h"

#ifndef N
#define N 40
#endif
#ifndef STEPS
#define STEPS 10
#endif

static ALIGNED double ex[N][N], ey[N][N], hz[N][N];
OUTPUT(hz)

EXPORT void setup(void) {
    FILL(ex); FILL(ey); FILL(hz);
}

KERNEL void fdtd_2d(void) {
    for (int t = 0; t < STEPS; t++) {
        for (int j = 0; j < N; j++) ey[0][j] = t;
        for (int i = 1; i < N; i++)
            for (int j = 0; j < N; j++) ey[i][j] -= 0.5 * (hz[i][j] - hz[i - 1][j]);
        for (int i = 0; i < N; i++)
            for (int j = 1; j < N; j++) ex[i][j] -= 0.5 * (hz[i][j] - hz[i][j - 1]);
        for (int i = 0; i < N - 1; i++)
            for (int j = 0; j < N - 1; j++) hz[i][j] -= 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
    }
}
