/* ten independent chains of floating-point additions */
#include "kernel.h"

#ifndef COUNT
#define COUNT 500
#endif

static ALIGNED double result[10];
OUTPUT(result)

EXPORT void setup(void) {
    FILL(result);
}

KERNEL void throughput_add(void) {
    double a = result[0], b = result[1], c = result[2], d = result[3], e = result[4];
    double f = result[5], g = result[6], h = result[7], k = result[8], l = result[9], one = 1;
    KEEPX(one);
    for (int i = 0; i < COUNT; i++) {
        a += one; b += one; c += one; d += one; e += one; f += one; g += one; h += one; k += one; l += one;
        KEEPX(a); KEEPX(b); KEEPX(c); KEEPX(d); KEEPX(e); KEEPX(f); KEEPX(g); KEEPX(h); KEEPX(k); KEEPX(l);
    }
    result[0] = a; result[1] = b; result[2] = c; result[3] = d; result[4] = e;
    result[5] = f; result[6] = g; result[7] = h; result[8] = k; result[9] = l;
}
