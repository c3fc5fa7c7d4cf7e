/* a chain of dependent floating-point multiplications */
#include "kernel.h"

#ifndef COUNT
#define COUNT 2000
#endif

static ALIGNED double result[1];
OUTPUT(result)

EXPORT void setup(void) {
    result[0] = 1.5;
}

KERNEL void latency_multiply(void) {
    double x = result[0], y = 0.9999;
    for (int i = 0; i < COUNT; i++) { x *= y; KEEPX(x); }
    result[0] = x;
}
