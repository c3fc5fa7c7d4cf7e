/* The control words of SSE and of x87: both measuring processes keep them apart by kernel (timer.c; microbenchmark's measure.c).
   What a kernel sets, when it is loaded (linked with -ffast-math: flush-to-zero; with -mpc32: x87's precision) or in a call,
   holds for all that this thread runs. */
#ifndef PERFKIT_CONTROL_H
#define PERFKIT_CONTROL_H
#include <stdint.h>

static inline void read_controls(uint32_t words[2]) {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    words[0] = __builtin_ia32_stmxcsr(), words[1] = x87;
}
static inline void set_controls(const uint32_t words[2]) {
    uint16_t x87 = (uint16_t)words[1];
    __asm__ volatile("fldcw %0" : : "m"(x87));
    __builtin_ia32_ldmxcsr(words[0]);
}
#endif
