/* The measuring process: loads objects of variants and times them on request.
   usage: measure REQUESTS ANSWERS CPUS SCHEDULER, the first two being inherited file descriptors, so that a kernel may
   print what it likes on 1 and 2; CPUS such as 0,1 ("" leaves the affinity); SCHEDULER is fifo or other.
     request: object variant repetitions windows steps warmup cold memory huge threads event_type event_config
     answer:  "begin variant steps overhead", per repetition "run tsc ns cycles event kept tried",
              "report name value", "end variant"; or "error text".
   Cycles need no counter: a window is timed between two chains of 4096 dependent adds, one cycle each, and dropped
   when the chains differ by more than 2 % (docs/studies.md). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "perfkit.h"

#define CHAIN 4096
#define LARGEST 10000
#define TARGET_TICKS 8000

static FILE *answers;
static uint64_t clock_overhead, time_overhead;

static inline uint64_t ticks_after(void) {
    unsigned low, high, aux;
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(aux) : : "memory");
    return low | (uint64_t)high << 32;
}
static inline uint64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
static __attribute__((noinline)) uint64_t chain(void) {
    uint64_t value = 1, addend = 3, turns = CHAIN / 64, begin = pk_now();
    __asm__ volatile("1:\n\t.rept 64\n\tadd %1, %0\n\t.endr\n\tdec %2\n\tjnz 1b" : "+r"(value), "+r"(addend), "+r"(turns) : : "cc");
    uint64_t took = ticks_after() - begin;
    return took > clock_overhead ? took - clock_overhead : 1;
}
static void calibrate(void) {
    uint64_t least = UINT64_MAX, least_ns = UINT64_MAX;
    for (int i = 0; i < 2000; i++) {
        uint64_t begin = pk_now(), took = ticks_after() - begin;
        if (took < least) least = took;
        uint64_t a = nanoseconds(), b = pk_now(), c = ticks_after(), d = nanoseconds();
        (void)b, (void)c;
        if (d - a < least_ns) least_ns = d - a;
    }
    clock_overhead = least;
    time_overhead = least_ns;
}
static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* The 10th percentile: the minimum is lucky, the median is busy. */
static double tenth(double *values, int n) {
    if (n == 0) return 0.0 / 0.0;
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 10];
}
static int open_event(unsigned type, unsigned long long config) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = type;
    attributes.config = config;
    attributes.disabled = 1;
    attributes.inherit = 1;
    attributes.exclude_kernel = type != PERF_TYPE_SOFTWARE;
    attributes.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
}

typedef void (*variant_function)(pk_context *);
typedef struct { double tsc, ns, cycles, event; } window;

static void flush(variant_function own, pk_context *pk) {
    if (own)
        own(pk);
    else
        pk_flush_range(pk->memory, pk->memory_size);
    __asm__ volatile("mfence\n\tlfence" : : : "memory");
}

static int once(variant_function run, variant_function own_flush, pk_context *pk, int warmup, int cold, int counter, window *out) {
    long steps = pk->steps;
    if (!cold)
        for (int i = 0; i < warmup; i++) run(pk);
    else {
        if (warmup) run(pk); /* warms code and page tables; the data goes next */
        flush(own_flush, pk);
    }
    pk->ticks = 0;
    pk->marked = 0;
    uint64_t before = chain();
    if (counter >= 0) {
        ioctl(counter, PERF_EVENT_IOC_RESET, 0);
        ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
    }
    uint64_t begin_ns = nanoseconds(), begin = pk_now();
    run(pk);
    uint64_t ticks = ticks_after() - begin, took_ns = nanoseconds() - begin_ns;
    out->event = 0.0 / 0.0;
    if (counter >= 0) {
        uint64_t count = 0;
        ioctl(counter, PERF_EVENT_IOC_DISABLE, 0);
        if (read(counter, &count, sizeof count) == (ssize_t)sizeof count) out->event = (double)count / (double)steps;
    }
    uint64_t after = chain();
    double tsc = (double)ticks - (double)clock_overhead;
    out->ns = ((double)took_ns - (double)time_overhead) / (double)steps;
    if (pk->marked) { /* the region marked a part of itself: its ticks count, and wall time in proportion */
        double inside = (double)pk->ticks - (double)pk->marked * (double)clock_overhead;
        out->ns *= tsc > 0 ? inside / tsc : 0;
        tsc = inside;
    }
    if (tsc < 0) tsc = 0;
    if (out->ns < 0) out->ns = 0;
    out->tsc = tsc / (double)steps;
    out->cycles = tsc / (((double)before + (double)after) / 2) * CHAIN / (double)steps;
    double ratio = before > after ? (double)before / (double)after : (double)after / (double)before;
    return ratio <= 1.02;
}

static char *memory;
static size_t memory_size;
static int memory_huge;
static int ready_memory(size_t size, int want_huge) {
    if (size < 4096) size = 4096;
    if (size <= memory_size && want_huge == memory_huge) return 1;
    if (memory) munmap(memory, memory_size);
    size_t huge = (size_t)2 << 20, room = (size + huge - 1) / huge * huge + huge;
    char *got = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) { memory = NULL; memory_size = 0; return 0; }
    char *aligned = (char *)(((uintptr_t)got + huge - 1) / huge * huge);
    madvise(aligned, room - huge, want_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(aligned, 0, size);
    memory = aligned;
    memory_size = size;
    memory_huge = want_huge;
    return 1;
}

static void serve(const char *object, const char *variant, int repetitions, int windows, long steps, int warmup, int cold,
                  size_t size, int huge, int threads, long event_type, unsigned long long event_config) {
    static double tsc[LARGEST], ns[LARGEST], cycles[LARGEST], event[LARGEST];
    static double all_tsc[LARGEST], all_ns[LARGEST];
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!library) { fprintf(answers, "error %s\n", dlerror()); return; }
    char name[128];
    snprintf(name, sizeof name, "pk_run_%s", variant);
    variant_function run, setup, teardown, own_flush;
    *(void **)&run = dlsym(library, name);
    snprintf(name, sizeof name, "pk_setup_%s", variant);
    *(void **)&setup = dlsym(library, name);
    snprintf(name, sizeof name, "pk_teardown_%s", variant);
    *(void **)&teardown = dlsym(library, name);
    snprintf(name, sizeof name, "pk_flush_%s", variant);
    *(void **)&own_flush = dlsym(library, name);
    if (!run) { fprintf(answers, "error no variant %s in the object\n", variant); return; }
    if (!ready_memory(size, huge)) { fprintf(answers, "error no memory: %zu bytes\n", size); return; }
    int counter = -1;
    if (event_type >= 0 && (counter = open_event((unsigned)event_type, event_config)) < 0) {
        fprintf(answers, "error no counter: %s\n", strerror(errno));
        return;
    }
    pk_context pk;
    memset(&pk, 0, sizeof pk);
    pk.memory = memory;
    pk.memory_size = size < 4096 ? 4096 : size;
    pk.threads = threads;
    pk.steps = 1;
    if (setup) setup(&pk);
    window one;
    if (steps > 0)
        pk.steps = steps;
    else {
        once(run, own_flush, &pk, 1, cold, -1, &one);
        for (;;) { /* as many executions as fill a short window: long windows catch interrupts and frequency changes */
            once(run, own_flush, &pk, 0, cold, -1, &one);
            if (one.tsc * (double)pk.steps >= TARGET_TICKS || pk.steps >= 1 << 20) break;
            pk.steps *= 2;
        }
    }
    fprintf(answers, "begin %s %ld %llu\n", variant, pk.steps, (unsigned long long)clock_overhead);
    for (int repetition = 0; repetition < repetitions; repetition++) {
        int kept = 0, tried = 0, timed = 0, most = 4 * windows;
        while (kept < windows && tried < most) {
            pk.reports = 0;
            int steady = once(run, own_flush, &pk, warmup, cold, counter, &one);
            if (timed < LARGEST) { all_tsc[timed] = one.tsc; all_ns[timed] = one.ns; timed++; }
            tried++;
            /* Over milliseconds the clock rate changes anyway: such a window is not timed again for unequal chains. */
            if (one.ns * (double)pk.steps > 2e6) most = windows;
            if (steady) {
                tsc[kept] = one.tsc; ns[kept] = one.ns; cycles[kept] = one.cycles; event[kept] = one.event;
                kept++;
            }
        }
        /* No steady window: the TSC and wall figures are still measurements; the cycles are unknown. */
        double t = kept ? tenth(tsc, kept) : tenth(all_tsc, timed), w = kept ? tenth(ns, kept) : tenth(all_ns, timed);
        fprintf(answers, "run %.17g %.17g %.17g %.17g %d %d\n", t, w, tenth(cycles, kept), tenth(event, kept), kept, tried);
        fflush(answers);
    }
    for (int i = 0; i < pk.reports; i++) fprintf(answers, "report %s %.17g\n", pk.report[i].name, pk.report[i].value);
    if (teardown) teardown(&pk);
    if (counter >= 0) close(counter);
    fprintf(answers, "end %s\n", variant);
}

static int pin(const char *cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const char *at = cpus; *at;) {
        char *end;
        long cpu = strtol(at, &end, 10);
        if (end == at || cpu < 0 || cpu >= CPU_SETSIZE) return 0;
        CPU_SET((int)cpu, &set);
        at = *end == ',' ? end + 1 : end;
    }
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

int main(int count, char **words) {
    if (count != 5) return 2;
    FILE *requests = fdopen(atoi(words[1]), "r");
    answers = fdopen(atoi(words[2]), "w");
    if (!requests || !answers) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed caller leaves no kernel running */
    int pinned = words[3][0] ? pin(words[3]) : 0;
    struct sched_param priority = {.sched_priority = 1};
    int fifo = strcmp(words[4], "fifo") == 0 && sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
    calibrate();
    fprintf(answers, "ready %llu %llu %d %d\n", (unsigned long long)clock_overhead, (unsigned long long)time_overhead, pinned, fifo);
    fflush(answers);
    static char object[4096], variant[64];
    int repetitions, windows, warmup, cold, huge, threads;
    long steps, event_type;
    size_t size;
    unsigned long long event_config;
    while (fscanf(requests, "%4095s %63s %d %d %ld %d %d %zu %d %d %ld %llu", object, variant, &repetitions, &windows, &steps,
                  &warmup, &cold, &size, &huge, &threads, &event_type, &event_config) == 12) {
        if (windows > LARGEST) windows = LARGEST;
        serve(object, variant, repetitions, windows, steps, warmup, cold, size, huge, threads, event_type, event_config);
        fflush(answers);
    }
    return 0;
}
