/* Time a function against a chain of dependent multiplications, whose latency in cycles is found by a chain of dependent
   additions of one cycle each (x86-64; docs/tracing.md). */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>

typedef void (*function)(long, long, long, long, long, long, double, double, double, double, double, double, double,
                         double);
#define FOUR(x) x x x x
#define SIXTY_FOUR(x) FOUR(FOUR(FOUR(x)))

/* Fences keep the measured code between the two readings. */
static inline uint64_t begin(void) {
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return low | (uint64_t)high << 32;
}

static inline uint64_t end(void) {
    uint32_t low, high, processor;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(processor)::"memory");
    return low | (uint64_t)high << 32;
}

/* 4096 dependent instructions, in a loop short enough for its end to be predicted. */
#define CHAIN(name, instruction)                                                                            \
    static __attribute__((noinline)) void name(void) {                                                      \
        uint64_t x = 1, y = 3, n = 16;                                                                      \
        __asm__ volatile(".p2align 5\n1:\n\t" FOUR(SIXTY_FOUR(instruction " %1, %0\n\t")) "dec %2\n\tjnz 1b" \
                         : "+r"(x), "+r"(y), "+r"(n)::"cc");                                                \
    }
CHAIN(additions, "add")
CHAIN(multiplications, "imul")

static uint64_t timed(void (*chain)(void), uint64_t overhead) {
    uint64_t from = begin();
    chain();
    return end() - from - overhead;
}

static uint64_t reading_overhead(void) {
    uint64_t least = -1;
    for (int k = 0; k < 100; k++) {
        uint64_t from = begin(), ticks = end() - from;
        if (ticks < least) least = ticks;
    }
    return least;
}

/* Ticks of both chains, side by side, some times over. */
void perfkit_compare(long repetitions, uint64_t (*out)[2]) {
    uint64_t overhead = reading_overhead();
    for (long r = -3; r < repetitions; r++) {
        uint64_t one = timed(additions, overhead), other = timed(multiplications, overhead);
        if (r >= 0) out[r][0] = one, out[r][1] = other;
    }
}

/* Per repetition: ticks of the chain before, of the calls, of the chain after. The kernel's integers and pointers go to
   the six integer registers and its floating-point arguments to the eight vector registers, in any order of both. */
void perfkit_time(function f, const long *i, const double *d, long calls, long repetitions, uint64_t (*out)[3],
                  void (*setup)(void)) {
    uint64_t overhead = reading_overhead();
    if (setup) setup();
    for (long r = -3; r < repetitions; r++) { /* three to warm up */
        uint64_t before = timed(multiplications, overhead);
        uint64_t from = begin();
        for (long c = 0; c < calls; c++)
            f(i[0], i[1], i[2], i[3], i[4], i[5], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
        uint64_t ticks = end() - from - overhead;
        uint64_t after = timed(multiplications, overhead);
        if (r >= 0) out[r][0] = before, out[r][1] = ticks, out[r][2] = after;
    }
}

int perfkit_pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set);
}
