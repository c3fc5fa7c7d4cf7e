/* Time a function in ticks between readings of the clock of clock.h; Python judges the samples (docs/tracing.md). */
#define _GNU_SOURCE
#ifdef PERFKIT_PRELOADED
#include <dlfcn.h>
#include <printf.h>
#endif
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "clock.h"
#include "clock_step.h"
#include "elsewhere.h"

typedef void (*function)(long, long, long, long, long, long, double, double, double, double, double, double, double,
                         double);

/* Ticks of the chains of additions and of multiplications, side by side, some times over. */
void perfkit_compare(long repetitions, uint64_t (*out)[2]) {
    uint64_t overhead = pk_clock_overhead();
    for (long r = -3; r < repetitions; r++) {
        uint64_t one = pk_clock_additions(overhead), other = pk_clock_multiplications(overhead);
        if (r >= 0) out[r][0] = one, out[r][1] = other;
    }
}

/* One sample: the reading before (chain, width, turns), ticks of the calls, the reading after. The kernel's integers and
   pointers go to the six integer registers and its floating-point arguments to the eight vector registers, in any order
   of both. Calls apart: each begins when the one before has ended, where else they may overlap. */
static void sample(const pk_clock *clock, function f, const long *i, const double *d, long calls, int apart, uint64_t *row) {
    pk_reading before, after;
    pk_clock_before(clock, &before);
    uint64_t from = pk_clock_begin();
    for (long c = 0; c < calls; c++) {
        f(i[0], i[1], i[2], i[3], i[4], i[5], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
        if (apart) __asm__ volatile("lfence" : : : "memory");
    }
    uint64_t ticks = pk_clock_end() - from - clock->overhead;
    pk_clock_after(clock, &after);
    uint64_t found[7] = {before.chain, before.width, before.turns, ticks, after.chain, after.width, after.turns};
    memcpy(row, found, sizeof found);
}

#define LONG_SAMPLE 1000000 /* ticks, from which a sample does not count in which other programs had the processor */
#define WAITED 0.005        /* share of such a sample, above which it does not count */
#define NOTICED 2e-6        /* seconds; the two clocks are not read at once */
static double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
typedef struct { double wall, mine; long gave; } waiting_t;
static waiting_t waiting_now(void) {
    struct rusage used = {0};
    getrusage(RUSAGE_THREAD, &used);
    return (waiting_t){seconds_of(CLOCK_MONOTONIC), seconds_of(CLOCK_THREAD_CPUTIME_ID), used.ru_nvcsw};
}
/* Whether another program had the processor since then (1), and whether this thread gave it up (4). */
static uint64_t waited_since(waiting_t before) {
    waiting_t now = waiting_now();
    double wall = now.wall - before.wall, waited = wall - (now.mine - before.mine);
    return (waited > WAITED * wall && waited > NOTICED) | (uint64_t)(now.gave != before.gave) << 2;
}

/* Of so many ticks a share that was this thread's since then. */
static uint64_t own_ticks(uint64_t ticks, waiting_t before) {
    waiting_t now = waiting_now();
    double wall = now.wall - before.wall, mine = now.mine - before.mine;
    return mine < wall && wall > 0 ? (uint64_t)((double)ticks * mine / wall) : ticks;
}
static uint64_t ticks_of(const pk_clock *clock, function f, const long *i, const double *d, long calls, int apart) {
    uint64_t from = pk_clock_begin();
    for (long c = 0; c < calls; c++) {
        f(i[0], i[1], i[2], i[3], i[4], i[5], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
        if (apart) __asm__ volatile("lfence" : : : "memory");
    }
    return pk_clock_end() - from - clock->overhead;
}

/* Ticks that others had of so many since then. */
static uint64_t waited_of(uint64_t ticks, waiting_t before) {
    waiting_t now = waiting_now();
    double wall = now.wall - before.wall, waited = wall - (now.mine - before.mine);
    return waited > NOTICED ? (uint64_t)((double)ticks * waited / wall) : 0;
}

/* What the system's clocks evict from the first level of the caches is brought back: as many calls as a sample has, between them and the
   sample. How many ticks others had of the sample alone, where these calls took so many, the sample `took` so many, and both usually take `usual`. */
#define BACK 1000000 /* ticks, from which what they evict is nothing beside a sample */
static uint64_t brought_back(const pk_clock *clock, function f, const long *i, const double *d, long calls, int apart, uint64_t usual) {
    return usual <= BACK ? ticks_of(clock, f, i, d, calls, apart) : 0;
}
static uint64_t of_the_sample(uint64_t waited, uint64_t back, uint64_t took, uint64_t usual) {
    uint64_t before = back > usual ? back - usual : 0, more = took > usual ? took - usual : 0;
    waited = waited > before ? waited - before : 0;
    /* What a sample did not take longer lay beside it, in the readings of the clocks; of long ones these are nothing, and what they usually
       take has a part of others, too. */
    return usual > BACK || waited < more ? waited : more;
}

/* By how many bytes the stack lies lower while kernels are called: all forked processes have it at the same place. */
static size_t lower;
void perfkit_move_stack(long bytes) { lower = (size_t)bytes; }
void perfkit_fill_holes(long bytes) { fill_holes((size_t)bytes); }
#define STACK_OF_ITS_OWN volatile char *own_stack = __builtin_alloca(lower + 16); own_stack[0] = 0

/* Samples: behind what `sample` has, the ticks of it that others had. Returns how often the kernel gave the processor up. */
long perfkit_time(function f, const long *i, const double *d, long calls, long repetitions, uint64_t (*out)[8],
                  void (*setup)(void), long apart) {
    pk_clock clock = {.overhead = pk_clock_overhead()};
    STACK_OF_ITS_OWN;
    uint64_t warm[8], usual = BACK;
    long gave = 0;
    if (setup) setup();
    for (long r = -3; r < repetitions; r++) { /* three to warm up */
        uint64_t *row = r < 0 ? warm : out[r], begin = ticks_before();
        waiting_t from = waiting_now();
        if (!r) gave = from.gave;
        uint64_t back = r < 0 ? 0 : brought_back(&clock, f, i, d, calls, (int)apart, usual);
        sample(&clock, f, i, d, calls, (int)apart, row);
        row[7] = of_the_sample(waited_of(ticks_before() - begin, from), back, row[3], usual);
        if (r < 0) usual = r == -3 || row[3] < usual ? row[3] : usual;
    }
    return waiting_now().gave - gave;
}

#define LOOK_BLOCK 2e-4 /* seconds between two readings of the clock */
#define LOOK_WAITS 2    /* times as long as asked for, at most, where other programs have the processor */
/* Calls as they go on, for so long: windows of some calls, and behind each turns of the shortest loop for as long, to which interrupts and
   neighbours do what they do to the windows. A block of them: the reading before it, ticks of all its windows, the reading after it, ticks
   that others had, how many windows, how often the kernel gave the processor up. A window: its ticks; those of the first turns behind it, of
   all but the first and last, and how many these are; those of the last. `room`: how many blocks and windows there is room for, and then how
   many there are; and how many calls to make before them, for `before` seconds at most, and then how many were made. */
void perfkit_look(function f, const long *i, const double *d, long calls, long apart, double before, double seconds, long *room,
                  uint64_t (*blocks)[10], uint64_t (*windows)[5]) {
    pk_clock clock = {.overhead = pk_clock_overhead()};
    STACK_OF_ITS_OWN;
    long skipped = 0;
    for (double begun = seconds_of(CLOCK_MONOTONIC); skipped < room[2] && seconds_of(CLOCK_MONOTONIC) - begun < before; skipped += calls)
        ticks_of(&clock, f, i, d, calls, (int)apart);
    double now = seconds_of(CLOCK_MONOTONIC), until = now + LOOK_WAITS * seconds, used = seconds_of(CLOCK_THREAD_CPUTIME_ID) + seconds;
    double usual = 0;
    long b = 0, w = 0;
    for (; b < room[0] && w < room[1] && now < until && seconds_of(CLOCK_THREAD_CPUTIME_ID) < used; b++) {
        pk_reading start, after;
        uint64_t sum = 0, n = 0, begin = ticks_before();
        waiting_t from = waiting_now();
        pk_clock_before(&clock, &start);
        for (double first = now; now - first < LOOK_BLOCK && w < room[1]; w++, n++) {
            uint64_t took = ticks_of(&clock, f, i, d, calls, (int)apart), turned = 0, k = 0;
            double mine = usual && (double)took > 2 * usual ? 2 * usual : (double)took; /* a window that others interrupted is no measure */
            usual += (mine - usual) / (usual ? 8 : 1);
            windows[w][1] = pk_clock_turns(clock.overhead);
            while ((double)turned < usual) turned += pk_clock_turns(clock.overhead), k++;
            windows[w][4] = pk_clock_turns(clock.overhead);
            windows[w][0] = took, windows[w][2] = turned, windows[w][3] = k, sum += took;
            now = seconds_of(CLOCK_MONOTONIC);
        }
        pk_clock_after(&clock, &after);
        uint64_t waited = waited_of(ticks_before() - begin, from), gave = (uint64_t)(waiting_now().gave - from.gave);
        uint64_t row[10] = {start.chain, start.width, start.turns, sum, after.chain, after.width, after.turns, waited, n, gave};
        memcpy(blocks[b], row, sizeof row);
    }
    room[0] = b, room[1] = w, room[2] = skipped;
}

/* The control words of SSE and of x87: what a kernel sets, when it is loaded (linked with -ffast-math: flush-to-zero; with -mpc32:
   x87's precision) or in a call, holds for all that this thread runs. So each kernel is called with its own, as its last call left
   them. */
void perfkit_control(uint32_t words[2]) {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    words[0] = __builtin_ia32_stmxcsr(), words[1] = x87;
}
void perfkit_set_control(const uint32_t words[2]) {
    uint16_t x87 = (uint16_t)words[1];
    __asm__ volatile("fldcw %0" : : "m"(x87));
    __builtin_ia32_ldmxcsr(words[0]);
}

#define WARM 5             /* samples of a variant before it is timed: with one, the first ran 4 to 8 % slower on Zen 4 */
#define LONG_WARM 1000000 /* or ticks */
#define TRAINED 40        /* samples of one of two kernels: the other one's branches take the predictors' place */
#define LONG_CALLS 50000 /* ticks: of what takes longer, others have a part so often that what they had is taken off each */

/* A row of two kernels' rounds: a sample, whether it (1) or the calls before it (2) waited for another program, and whether the
   kernel itself waited (4), and the sample's ticks without what others had; behind that the ticks of the calls before it, as many as were
   made. */
#define PAIR (9 + TRAINED)
/* Two kernels in turns, each with its own number of calls: in each round both are sampled, in the order that the round's number says (even: the first
   one first). Behind its set-up each is called `start` times, so that not all processes time the same calls of a kernel that counts them. Calls before each sample, up to as many as `TRAINED` samples have or as fill `LONG_WARM`, bring back what the other kernel evicted from
   caches and branch predictors; where the number has a 2 there is one more, so that calls that take turns are not in step with the samples. `turn_of` says for others to read whose
   turn it is, by the kernel's label; 0: nobody's. `control`: of each where its control words are, which are left there. */
void perfkit_pairs(const function *f, const long *const *i, const double *const *d, const long *calls, long rounds,
                   const uint8_t *order, uint64_t (*out)[2][PAIR], void (*const *setup)(void), long apart, long start,
                   const unsigned char *labels, volatile unsigned char *turn_of, uint32_t *const *control) {
    pk_clock clock = {.overhead = pk_clock_overhead()};
    STACK_OF_ITS_OWN;
    uint64_t warm[PAIR], taken[2] = {0, 0}, least[2] = {LONG_WARM, LONG_WARM};
    uint32_t before[2];
    perfkit_control(before);
    for (int k = 0; k < 2; k++) {
        *turn_of = labels[k];
        perfkit_set_control(control[k]);
        if (setup[k]) setup[k]();
        ticks_of(&clock, f[k], i[k], d[k], start, 0);
        perfkit_control(control[k]);
    }
    for (long r = -3; r < rounds; r++)
        for (int turn = 0; turn < 2; turn++) {
            int k = r < 0 ? turn : turn ^ (order[r] & 1);
            uint64_t *row = r < 0 ? warm : out[r][k];
            *turn_of = labels[k];
            perfkit_set_control(control[k]);
            if (r >= 0 && order[r] & 2) ticks_of(&clock, f[k], i[k], d[k], 1, 0);
            ticks_of(&clock, f[k], i[k], d[k], 1, 0);
            /* As many in each round: an end at a certain time would come behind long calls, and the sample with it. */
            waiting_t before_these = waiting_now();
            int are_long = least[0] > LONG_CALLS || least[1] > LONG_CALLS; /* of both, else the ratio has what others had of one */
            for (uint64_t w = 0; r >= 0 && w < TRAINED && (w + 1) * least[k] <= LONG_WARM; w++) {
                waiting_t this = are_long ? waiting_now() : before_these;
                row[9 + w] = ticks_of(&clock, f[k], i[k], d[k], calls[k], (int)apart);
                if (are_long) row[9 + w] = own_ticks(row[9 + w], this);
            }
            uint64_t before_it = waited_since(before_these);
            uint64_t began = ticks_before();
            waiting_t from = waiting_now();
            uint64_t back = r < 0 ? 0 : brought_back(&clock, f[k], i[k], d[k], calls[k], (int)apart, least[k]);
            sample(&clock, f[k], i[k], d[k], calls[k], (int)apart, row);
            uint64_t waited = waited_since(from), others = of_the_sample(waited_of(ticks_before() - began, from), back, row[3], least[k]);
            row[8] = others < row[3] ? row[3] - others : 1;
            if (taken[k] > LONG_SAMPLE && waited & 1) row[0] = 0; /* no reading: the sample is not steady */
            row[7] = waited | (before_it & 1) << 1 | (before_it & 4);
            taken[k] = row[3];
            if (r < 0 && taken[k] < least[k]) least[k] = taken[k];
            perfkit_control(control[k]);
        }
    *turn_of = 0;
    perfkit_set_control(before);
}

/* A function of PERFKIT_KNOWN dependent multiplications, called apart: what is over is the fence and the call itself. */
#define PERFKIT_KNOWN 40
static __attribute__((noinline)) void known(void) { __asm__ volatile(".rept 40\n\timul %%eax, %%eax\n\t.endr" : : : "eax", "cc"); }
int perfkit_fence(long calls, long rounds, uint64_t (*out)[7]) {
    pk_clock clock = {.overhead = pk_clock_overhead()};
    const long i[6] = {0};
    const double d[8] = {0};
    for (long r = 0; r < rounds; r++) sample(&clock, (function)(void *)known, i, d, calls, 1, out[r]);
    return PERFKIT_KNOWN;
}

double perfkit_step(void) { return step_of_the_clock(); }

/* Variants of one kernel in turns: each timed between two runs of the first one, all three between two readings of the
   clock. A row: the reading before, ticks of the first, of the variant, of the first again, the reading after. What is
   given as `ready` is called before each sample, untimed. */
void perfkit_turns(const function *f, const long *i, const double *d, long calls, long turns, const uint32_t *which,
                   uint64_t (*out)[9], void (*ready)(void)) {
    pk_clock clock = {.overhead = pk_clock_overhead()};
    for (long t = 0; t < turns; t++) {
        function g = f[which[t]], kernels[3] = {f[0], g, f[0]};
        pk_reading before, after;
        uint64_t ticks[3];
        if (ready) ready();
        ticks_of(&clock, f[0], i, d, 1, 0); /* back into the caches */
        uint64_t trained = 0; /* and the variant into the branch predictor, where a hundred others ran since its last turn */
        for (int k = 0; k < WARM && trained < LONG_WARM; k++) {
            if (ready) ready();
            trained += ticks_of(&clock, g, i, d, calls, 0);
        }
        pk_clock_before(&clock, &before);
        for (int k = 0; k < 3; k++) {
            if (ready) ready();
            ticks[k] = ticks_of(&clock, kernels[k], i, d, calls, 0);
        }
        pk_clock_after(&clock, &after);
        uint64_t found[9] = {before.chain, before.width, before.turns, ticks[0],   ticks[1],
                             ticks[2],     after.chain,  after.width,  after.turns};
        memcpy(out[t], found, sizeof found);
    }
}

/* Call a function once and return both registers that results come in. */
typedef struct { long integer; double number; } result;
void perfkit_call(function f, const long *i, const double *d, result *out) {
    result (*g)(long, long, long, long, long, long, double, double, double, double, double, double, double, double) =
        (void *)f;
    *out = g(i[0], i[1], i[2], i[3], i[4], i[5], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
}

/* clock.h's judgement of given samples, so that it can be compared with Python's: flags of pk_clock_judge. */
void perfkit_judge(long count, int link, const uint64_t (*samples)[7], int *verdicts, double *cycles) {
    pk_clock clock = {.link = link};
    for (int turn = 0; turn < 2; turn++) /* the first turn learns */
        for (long r = 0; r < count; r++) {
            pk_reading before = {samples[r][0], samples[r][1], samples[r][2]};
            pk_reading after = {samples[r][4], samples[r][5], samples[r][6]};
            verdicts[r] = pk_clock_judge(&clock, &before, &after, samples[r][3], cycles + r);
        }
}

int perfkit_find_link(int count, const uint64_t (*pairs)[2]) { return pk_clock_link(pairs, count); }

/* Be killed when the parent ends, however it ends: a kernel may never return. 0 if it ended already. */
int perfkit_end_with(int parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent;
}

/* numpy's libraries register conversions of their own with `printf`, which makes every conversion of every program in
   the process slower: `snprintf` takes 1.9 times as long. Loaded before them, this refuses until `perfkit_registering`
   is called: then it is the kernel that asks. */
#ifdef PERFKIT_PRELOADED
static int registering;
void perfkit_registering(void) { registering = 1; }
#define NEXT(name) (registering ? dlsym(RTLD_NEXT, #name) : NULL)
int register_printf_specifier(int letter, printf_function *write, printf_arginfo_size_function *sizes) {
    int (*next)(int, printf_function *, printf_arginfo_size_function *) = NEXT(register_printf_specifier);
    return next ? next(letter, write, sizes) : -1;
}
int register_printf_modifier(const wchar_t *name) {
    int (*next)(const wchar_t *) = NEXT(register_printf_modifier);
    return next ? next(name) : -1;
}
int register_printf_type(printf_va_arg_function *read) {
    int (*next)(printf_va_arg_function *) = NEXT(register_printf_type);
    return next ? next(read) : -1;
}
#endif

int perfkit_pin(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(0, sizeof set, &set);
}
