/* Yule-Walker equations of a Toeplitz matrix, by Durbin's recursion */
#include "kernel.h"

#ifndef N
#define N 120
#endif

static ALIGNED double r[N], y[N], z[N];
OUTPUT(y)

EXPORT void setup(void) {
    for (int i = 0; i < N; i++) r[i] = N + 1 - i;
}

KERNEL void durbin(void) {
    double alpha = -r[0], beta = 1;
    y[0] = -r[0];
    for (int k = 1; k < N; k++) {
        double sum = 0;
        beta *= 1 - alpha * alpha;
        for (int i = 0; i < k; i++) sum += r[k - i - 1] * y[i];
        alpha = -(r[k] + sum) / beta;
        for (int i = 0; i < k; i++) z[i] = y[i] + alpha * y[k - i - 1];
        for (int i = 0; i < k; i++) y[i] = z[i];
        y[k] = alpha;
    }
}
