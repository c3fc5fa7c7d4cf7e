/* independent floating-point divisions: the divider is not pipelined */
#include "kernel.h"

#ifndef COUNT
#define COUNT 500
#endif

static ALIGNED double result[4];
OUTPUT(result)

EXPORT void setup(void) {
    FILL(result);
}

KERNEL void divider(void) {
    double a = 1.5, b = 2.5, c = 3.5, d = 4.5, x, y, z, w, divisor = 1.25;
    KEEPX(divisor);
    for (int i = 0; i < COUNT; i++) {
        x = a / divisor; y = b / divisor; z = c / divisor; w = d / divisor;
        KEEPX(x); KEEPX(y); KEEPX(z); KEEPX(w); KEEPX(a); KEEPX(b); KEEPX(c); KEEPX(d);
    }
    result[0] = x; result[1] = y; result[2] = z; result[3] = w;
}
