/* The clock in core cycles (x86-64, no counters needed), for programs that time kernels: timer.c and measure.c.

   Readings frame what is timed. A reading has three parts (perfkit/collectors/host/cycle_clock.py explains them):
     chain  dependent multiplications, `link` cycles each: how long a cycle is;
     width  independent additions: slower beside a thread that uses the same core's ports and front end;
     turns  turns of the shortest loop, a cycle each on a quiet core: about two beside any thread that is awake.

   How to use it:
       pk_clock clock;
       if (!pk_clock_start(&clock)) ...                 // no cycle can be told here now: too busy
       pk_reading before, after;
       pk_clock_before(&clock, &before);
       uint64_t begin = pk_clock_begin();  region();  uint64_t ticks = pk_clock_end() - begin - clock.overhead;
       pk_clock_after(&clock, &after);
       double cycles;
       switch (pk_clock_judge(&clock, &before, &after, ticks, &cycles)) ...
   PK_QUIET: the sample counts. PK_BUSY: another thread of the core was at work; cycles holds what the region took beside
   it, often much more than alone: count it as busy, and quote it only with that said. PK_UNSTEADY: drop it.
   A region should take 20,000 cycles or more: the time stamp counter of some cores advances in steps of 36 cycles. */
#ifndef PERFKIT_CLOCK_H
#define PERFKIT_CLOCK_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PK_CHAIN 4096
#define PK_WIDTH 8192
#define PK_TURNS 2048
#define PK_TOLERANCE 0.02   /* chains before and after may differ by so much */
#define PK_AWAKE 1.12       /* cycles per turn above which another thread of the core is awake */
#define PK_RUSHED 0.97      /* cycles per turn below which the clock ran at another rate than what it frames */
#define PK_CROWDED 1.08     /* width, relative to the quiet core's, above which another thread uses its ports */
#define PK_CONTENTION 0.10  /* a neighbour slows a chain of additions by up to so much */
#define PK_MEMORY 512       /* readings of width that the quiet level is learnt from */

typedef struct { uint64_t chain, width, turns; } pk_reading;
typedef struct {
    uint64_t overhead;      /* ticks of two readings of the time stamp counter */
    int link;               /* cycles of a dependent multiplication */
    double quiet_width;     /* cycles per independent addition on the quiet core; 0 while unknown */
    double width[PK_MEMORY];
    int known, next;
} pk_clock;
enum { PK_UNSTEADY, PK_BUSY, PK_QUIET };

/* Fences keep the measured code between the two readings. */
static inline uint64_t pk_clock_begin(void) {
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return low | (uint64_t)high << 32;
}
static inline uint64_t pk_clock_end(void) {
    uint32_t low, high, processor;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(processor)::"memory");
    return low | (uint64_t)high << 32;
}

/* Two registers each: no core known executes these at rename, as Golden Cove does additions of constants. Each loop runs
   once untimed: what was measured may have evicted its code from the caches. */
#define PK_LOOP(name, count, body, ...)                                                                         \
    static __attribute__((noinline, unused)) void name##_turns(uint64_t n) {                                    \
        uint64_t x = 1, y = 3;                                                                                  \
        __asm__ volatile(".p2align 6\n1:\n\t" body "dec %2\n\tjnz 1b"                                           \
                         : "+r"(x), "+r"(y), "+r"(n)::"cc" __VA_ARGS__);                                        \
    }                                                                                                           \
    static inline uint64_t name(uint64_t overhead) {                                                            \
        name##_turns(1);                                                                                        \
        uint64_t from = pk_clock_begin();                                                                       \
        name##_turns(count);                                                                                    \
        return pk_clock_end() - from - overhead;                                                                \
    }
#define PK_MANY(count, instructions) ".rept " #count "\n\t" instructions ".endr\n\t"
PK_LOOP(pk_clock_additions, PK_CHAIN / 256, PK_MANY(256, "add %1, %0\n\t"))
PK_LOOP(pk_clock_multiplications, PK_CHAIN / 256, PK_MANY(256, "imul %1, %0\n\t"))
PK_LOOP(pk_clock_turns, PK_TURNS, "add %1, %0\n\t")
PK_LOOP(pk_clock_width, PK_WIDTH / 64,
        PK_MANY(8, "add %1, %%rax\n\tadd %1, %%rcx\n\tadd %1, %%rdx\n\tadd %1, %%rsi\n\tadd %1, %%r8\n\tadd %1, %%r9\n\t"
                   "add %1, %%r10\n\tadd %1, %%r11\n\t"),
        , "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11")

static inline int pk_clock_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Of a counter that advances in steps (26 ticks in a guest of a Zen 5) the least reading is a step less than a usual one,
   and would make all chains, and so every figure, a third of a per cent too short: the mean of the middle half of
   readings that begin at every part of a step. */
static inline uint64_t pk_clock_overhead(void) {
    double found[512], sum = 0;
    for (uint64_t k = 0; k < 512; k++) {
        uint64_t turns = k % 127 + 1;
        __asm__ volatile("1:\n\tdec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
        uint64_t from = pk_clock_begin();
        found[k] = (double)(pk_clock_end() - from);
    }
    qsort(found, 512, sizeof *found, pk_clock_by_value);
    for (int k = 128; k < 384; k++) sum += found[k];
    return (uint64_t)(sum / 256 + 0.5);
}
/* The probes lie next to what is measured: a neighbour comes and goes faster than the clock rate changes. */
static inline void pk_clock_before(const pk_clock *clock, pk_reading *out) {
    out->chain = pk_clock_multiplications(clock->overhead);
    out->width = pk_clock_width(clock->overhead);
    out->turns = pk_clock_turns(clock->overhead);
}
static inline void pk_clock_after(const pk_clock *clock, pk_reading *out) {
    out->turns = pk_clock_turns(clock->overhead);
    out->width = pk_clock_width(clock->overhead);
    out->chain = pk_clock_multiplications(clock->overhead);
}

/* Remember a width that was read with the turns of a quiet core; the 2nd percentile of the last ones is quiet's. */
static inline void pk_clock_learn(pk_clock *clock, double width) {
    clock->width[clock->next] = width;
    clock->next = (clock->next + 1) % PK_MEMORY;
    if (clock->known < PK_MEMORY) clock->known++;
    if (clock->known < 16 || (clock->known == PK_MEMORY && clock->next % 32)) return;
    double sorted[PK_MEMORY];
    memcpy(sorted, clock->width, (size_t)clock->known * sizeof *sorted);
    qsort(sorted, (size_t)clock->known, sizeof *sorted, pk_clock_by_value);
    double level = sorted[clock->known / 50];
    int near = 0;
    while (near < clock->known && sorted[near] <= level * PK_CROWDED) near++;
    clock->quiet_width = near >= 3 && near * 20 >= clock->known ? level : 0;
}
/* Judge one sample, and learn from it. */
static inline int pk_clock_judge(pk_clock *clock, const pk_reading *before, const pk_reading *after, uint64_t ticks,
                                 double *cycles) {
    double first = (double)before->chain, last = (double)after->chain;
    double low = first < last ? first : last, high = first < last ? last : first;
    *cycles = 0.0 / 0.0;
    if ((int64_t)before->chain <= 0 || (int64_t)after->chain <= 0 || (int64_t)ticks <= 0) return PK_UNSTEADY;
    if (high > (1 + PK_TOLERANCE) * low) return PK_UNSTEADY;
    double rate = (first + last) / 2 / (PK_CHAIN * clock->link);
    double least = (double)(before->turns < after->turns ? before->turns : after->turns);
    if (least < PK_RUSHED * PK_TURNS * rate) return PK_UNSTEADY;
    *cycles = (double)ticks / rate;
    double turns = (double)(before->turns > after->turns ? before->turns : after->turns) / rate / PK_TURNS;
    double width = (double)(before->width > after->width ? before->width : after->width) / rate / PK_WIDTH;
    if (turns > PK_AWAKE) return PK_BUSY;
    pk_clock_learn(clock, width);
    return clock->quiet_width > 0 && width <= PK_CROWDED * clock->quiet_width ? PK_QUIET : PK_BUSY;
}
/* The whole number that most pairs of ticks (additions, multiplications) come close to from below; 0 if there is none. */
static inline int pk_clock_link(const uint64_t (*pairs)[2], int count) {
    int near[8] = {0}, link = 3, second = 0;
    for (int r = 0; r < count; r++) {
        double ratio = (double)pairs[r][1] / (double)(pairs[r][0] ? pairs[r][0] : 1);
        for (int k = 3; k < 8; k++) near[k] += ratio >= (1 - PK_CONTENTION) * k && ratio <= 1.02 * k;
    }
    for (int k = 4; k < 8; k++)
        if (near[k] > near[link]) link = k;
    for (int k = 3; k < 8; k++)
        if (k != link && near[k] > second) second = near[k];
    return near[link] && near[link] * 10 >= count && near[link] >= 2 * second ? link : 0;
}
/* Find the cycles of a multiplication and the width of the quiet core; 0 if the machine is too busy to tell. About 5 ms. */
static inline int pk_clock_start(pk_clock *clock) {
    uint64_t pairs[100][2];
    memset(clock, 0, sizeof *clock);
    clock->overhead = pk_clock_overhead();
    for (int tries = 0; tries < 9 && !clock->link; tries++) {
        for (int r = -3; r < 100; r++) {
            uint64_t one = pk_clock_additions(clock->overhead), other = pk_clock_multiplications(clock->overhead);
            if (r >= 0) pairs[r][0] = one, pairs[r][1] = other;
        }
        clock->link = pk_clock_link((const uint64_t (*)[2])pairs, 100);
    }
    for (int k = 0; clock->link && k < PK_MEMORY; k++) {
        pk_reading before, after;
        double cycles;
        pk_clock_before(clock, &before);
        pk_clock_after(clock, &after);
        pk_clock_judge(clock, &before, &after, 1, &cycles);
    }
    return clock->link;
}
#endif
