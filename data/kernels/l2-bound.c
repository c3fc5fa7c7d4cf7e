/* a sum over an array that fits L2 and not L1, one element a line */
#include "kernel.h"

#ifndef SIZE
#define SIZE 32768
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif

static ALIGNED double source[SIZE], result[1];
OUTPUT(result)

EXPORT void setup(void) {
    FILL(source);
}

KERNEL void l2_bound(void) {
    double a = 0, b = 0, c = 0, d = 0;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < SIZE; i += 32) {
            a += source[i]; b += source[i + 8]; c += source[i + 16]; d += source[i + 24];
            KEEPX(a);
        }
    result[0] = a + b + c + d;
}
