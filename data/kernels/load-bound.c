/* loads from L1 and little else */
#include "kernel.h"

#ifndef COUNT
#define COUNT 400
#endif
#ifndef SIZE
#define SIZE 1024
#endif

static ALIGNED long source[SIZE], result[1];
OUTPUT(result)

EXPORT void setup(void) {
    for (int i = 0; i < SIZE; i++) source[i] = i;
}

KERNEL void load_bound(void) {
    const long *p = source;
    for (int i = 0; i < COUNT; i++) {
        long a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7];
        KEEP(a); KEEP(b); KEEP(c); KEEP(d); KEEP(e); KEEP(f); KEEP(g); KEEP(h);
        p = p + 8 == source + SIZE ? source : p + 8;
    }
    result[0] = p - source;
}
