/* The time stamp counter read between fences, and by how much it advances: both measuring processes ask (timer.c;
   microbenchmark/native/clock.h). */
#ifndef PERFKIT_CLOCK_STEP_H
#define PERFKIT_CLOCK_STEP_H
#include <stdint.h>

static inline uint64_t ticks_before(void) {
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return low | (uint64_t)high << 32;
}
static inline uint64_t ticks_after(void) {
    uint32_t low, high, processor;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(processor) : : "memory");
    return low | (uint64_t)high << 32;
}

/* The counter's step: loops of 1 to 300 turns take every number of ticks, or groups of numbers that lie a step apart
   (26 in a guest of a Zen 5, whose readings are multiples of 10 ns, with one tick of error). */
static double step_of_the_clock(void) {
    static unsigned counts[2048];
    int groups = 0, first = 0, last = 0, before = -10;
    for (int i = 0; i < 12000; i++) {
        uint64_t turns = (uint64_t)i % 300 + 1, begin = ticks_before(), took;
        __asm__ volatile("1:\n\tdec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
        took = ticks_after() - begin;
        if (took < 2048) counts[took]++;
    }
    for (int i = 0; i < 2048; i++) {
        if (counts[i] < 8) continue;
        if (i - before > 3) {
            if (!groups++) first = i;
            last = i;
        }
        before = i;
    }
    return groups > 3 ? (double)(last - first) / (groups - 1) : 1;
}
#endif
