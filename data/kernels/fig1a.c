/* the Gus paper's Fig. 1, version (a): the load of ymm2 stays in the loop; two dependent FMAs an iteration */
#include "kernel.h"

#ifndef COUNT
#define COUNT 1000
#endif

static ALIGNED float x[8], y[8], constant[8], z[8];
OUTPUT(z)

EXPORT void setup(void) {
    FILLF(x);
    FILLF(y);
    FILLF(constant);
}

KERNEL void fig1a(void) {
    #if defined(__x86_64__)
        long n = COUNT;
        __asm__ volatile(
            "vxorps %%xmm0, %%xmm0, %%xmm0\n\tvmovaps %4, %%ymm3\n\tvmovaps %1, %%ymm1\n\t"
            ".p2align 5\n"
            "1:\tvmovaps %2, %%ymm2\n\t"
            "vfmadd231ps %%ymm3, %%ymm1, %%ymm0\n\t"
            "vfmadd231ps %%ymm2, %%ymm1, %%ymm0\n\t"
            "dec %0\n\tjnz 1b\n\t"
            "vmovaps %%ymm0, %3\n\tvzeroupper"
            : "+r"(n) : "m"(x), "m"(y), "m"(z), "m"(constant) : "xmm0", "xmm1", "xmm2", "xmm3", "memory", "cc");
    #else
        for (int k = 0; k < 8; k++) z[k] = 0;
        for (int i = 0; i < COUNT; i++)
            for (int k = 0; k < 8; k++) {
                z[k] += x[k] * constant[k];
                z[k] += x[k] * y[k];
            }
    #endif
}
