/* a chain through memory: each load reads what was just stored */
#include "kernel.h"

#ifndef COUNT
#define COUNT 1000
#endif

static ALIGNED volatile long cell[1];
OUTPUT(cell)

EXPORT void setup(void) {
    cell[0] = 0;
}

KERNEL void store_forward(void) {
    for (int i = 0; i < COUNT; i++) cell[0] = cell[0] + 1;
}
