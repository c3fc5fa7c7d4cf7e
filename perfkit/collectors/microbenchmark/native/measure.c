/* The measuring process: loads objects of variants and times them on request.
   usage: measure REQUESTS ANSWERS CPUS SCHEDULER MEMORY FILES LEVEL, the first two being inherited file descriptors, so
   that a kernel may print what it likes on 1 and 2; CPUS such as 0,1 ("" leaves the affinity); SCHEDULER is fifo or
   other; MEMORY and FILES limit the address space and what is written to a file, in bytes; LEVEL is what a probe of a
   quiet core was seen to take, in cycles (0: unknown).
     request: object variant repetitions windows steps warmup cold memory huge threads apart marks code program event_type event_config
       (marks: 1 where the object has marks, which must then be reached; code: 1 where what is timed is plain integer code, 2 of vectors, 0 unknown;
       program: 1 for an executable, of which `object`.words holds the command line)
     answer:  "begin variant steps overhead", per repetition "run tsc ns cycles event kept tried quiet level",
              "apart cycles" (of executions that do not overlap; "same": those of the runs do not; nan: unknown),
              "bias below above nothing" (by how many cycles the truth may lie beside the figure for what marks add; up to which
              figure it may be 0; NaN: no quiet moment was found to calibrate them),
              "varies share ticks cycles" (by how much longer than the tenth of all quiet windows these took on average, without the
              longest few, and that average of an execution; cycles by the rate of the clock in all steady windows, 0: unknown),
              "rare row n added squares longest... n added squares longest..." (of windows, in a row with chains or not, and of chains: rare.h),
              "later cycles" (of an execution in windows in a row that come after all runs: the mean without the longest in thirty),
              "unflushed cycles" (of an execution of a cold region behind a flush of other memory),
              "gave times executions" (how often this thread gave the processor up by itself, where it did),
              "lost share" (of the time, to interrupts and short waits, where windows are so long that these meet each),
              "pairs mean square" (of marks in an execution, and the square of its relative standard error, where not all have as many),
              "grain ticks cycles marks" (of windows that are few steps of the counter long, one of these; marks: 1 where the
              region's own read it), "report name value", "sentinel cycles quiet_level", "end variant"; or "error text".
   How a window is timed in cycles, and which windows count: clock.h and docs/studies.md. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "perfkit.h"
#include "clock.h"
#include "elsewhere.h"
#include "system.h"

static FILE *answers;
static int has_marks; /* whether marks stand in the region or program that is measured */

/* By how many ticks a figure that is the sum of some readings may be off; 0 where the counter has no steps. */
static double grain_of(double readings) {
    double whole = readings > 1 ? readings : 1, root = 1;
    for (int i = 0; i < 40; i++) root = (root + whole / root) / 2;
    return clock_step > 2 ? (1.05 * clock_step + 1) * root : 0;
}

/* Interrupts meet every window that is long, and count as its time: the share that they take of a loop that does nothing else
   than look for them. What takes longer than they do is another program. */
#define LONG_WINDOW 1e6 /* nanoseconds */
#define LOOKED_FOR 2e6
#define INTERRUPTED 200.0
#define SWITCHED 2e5
#define ASKED 2e4 /* nanoseconds of a window from which it is asked how much of its time others had */
static double lost_ns, watched_ns;
static void watch_interrupts(void) {
    double lost = 0, watched = 0;
    for (uint64_t before = ticks_before(), begun = nanoseconds(); nanoseconds() - begun < LOOKED_FOR;) {
        uint64_t now = ticks_before();
        double gap = (double)(now - before) * tick_ns;
        if (gap < SWITCHED) watched += gap, lost += gap > INTERRUPTED ? gap : 0;
        before = now;
    }
    lost_ns += lost, watched_ns += watched;
}

#include "kinds.h"
#include "program.h"

#define LARGEST 10000
#define TARGET_TICKS 8000
#define LONGEST_RUN 1e9 /* nanoseconds: a run whose windows take long has fewer of them */

typedef void (*variant_function)(pk_context *);
typedef struct { double tsc, own, ns, cycles, event, level, rate, grain, pairs; int steady, quiet, alone, unpaired, unreached, mixed, is_short; } window;

static void flush(variant_function own, pk_context *pk) {
    if (own)
        own(pk);
    else
        pk_flush_range(pk->memory, pk->memory_size);
    __asm__ volatile("mfence\n\tlfence" : : : "memory");
}

/* Fences between executions: perfkit.h left no-ops where they go. */
typedef const int *(*fences_function)(int);
static int set_fences(fences_function fences, int on) {
    static const unsigned char fence[3] = {0x0f, 0xae, 0xe8}, nothing[3] = {0x0f, 0x1f, 0x00};
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int n = 0;
    if (!fences) return 0;
    for (const int *at = fences(0); at < fences(1); at++, n++) {
        unsigned char *place = (unsigned char *)at + *at;
        char *from = (char *)((uintptr_t)place & ~(page - 1)), *to = (char *)place + 3;
        if (memcmp(place, on ? nothing : fence, 3) != 0) return 0;
        if (mprotect(from, (size_t)(to - from), PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return 0;
        memcpy(place, on ? fence : nothing, 3);
        mprotect(from, (size_t)(to - from), PROT_READ | PROT_EXEC);
    }
    return n;
}
static int fenced; /* whether executions are apart now */

/* All executions of an experiment; those up to the end of its runs, and how many pairs of marks they reached; the same at the end of each run. */
static double executed, reached, of_experiment;
#define MOST_PARTS 64
static struct { double executed, reached; } parts[MOST_PARTS];
static int parts_n;
static void no_executions_yet(void) { of_experiment = executed = reached = parts_n = 0; }
static void count_pairs(const pk_context *pk) {
    executed += (double)pk->steps, reached += (double)pk->pk_marked, of_experiment += (double)pk->steps;
}
static void end_part(void) {
    if (parts_n < MOST_PARTS) parts[parts_n].executed = executed, parts[parts_n++].reached = reached;
}
static void no_marks_yet(pk_context *pk) {
    pk->pk_ticks = 0;
    pk->pk_begins = pk->pk_marked = 0;
    pk->pk_begun = 0;
    pk->pk_mixed = 0;
}
static void executions(variant_function run, pk_context *pk) {
    no_marks_yet(pk);
    run(pk);
    count_pairs(pk);
}

static int exact; /* whether what the readings add is subtracted: once all is calibrated */

static void once(variant_function run, variant_function own_flush, pk_context *pk, int warmup, int cold, int counter, window *out) {
    long steps = pk->steps;
    if (!cold)
        for (int i = 0; i < warmup; i++) executions(run, pk);
    else {
        if (warmup) executions(run, pk); /* warms code and page tables; the data goes next */
        flush(own_flush, pk);
    }
    no_marks_yet(pk);
    static uint64_t last_ns; /* a window that is short hardly ever has to wait, and is not worth the question */
    double waiting = last_ns > ASKED ? waited() : -1;
    mark before = mark_before();
    double count = counter >= 0 ? event_begins(counter) : 0;
    uint64_t begin_ns = nanoseconds(), begin = ticks_before();
    run(pk);
    uint64_t ticks = ticks_after() - begin, took_ns = nanoseconds() - begin_ns;
    tidy_up();
    out->event = counter >= 0 ? event_ends(counter, count) / (double)steps : 0.0 / 0.0;
    mark after = mark_after();
    double others = waiting < 0 ? 0 : waited() - waiting;
    out->alone = others <= WAITED * (double)took_ns;
    last_ns = took_ns;
    count_pairs(pk);
    out->unpaired = pk->pk_begins != pk->pk_marked || pk->pk_ticks > ticks;
    out->unreached = has_marks && !pk->pk_marked;
    out->mixed = pk->pk_mixed;
    double tsc = (double)ticks - (double)clock_overhead;
    out->ns = ((double)took_ns - (double)time_overhead) / (double)steps;
    if (fenced && !pk->pk_marked) {
        double inside = tsc - (bias_of(APART).middle + (double)(steps - 1) * bias_of(FENCE).middle) / cycles_a_tick(before, after);
        out->ns *= tsc > 0 ? inside / tsc : 0;
        tsc = inside;
    }
    out->rate = cycles_a_tick(before, after);
    /* Windows shorter than those that are made by default are few steps of the counter long. */
    out->is_short = pk->pk_marked || steps == 1 || tsc < 0.9 * TARGET_TICKS;
    out->pairs = (double)pk->pk_marked / (double)steps;
    out->grain = pk->pk_marked ? grain_of(out->pairs) : grain_of(1) / (double)steps;
    if (pk->pk_marked) { /* the region marked a part of itself: its ticks count, and wall time in proportion */
        double inside = (double)pk->pk_ticks - (double)pk->pk_marked * ((double)clock_overhead + (exact ? bias_of(MARKS).middle / out->rate : 0));
        out->ns *= tsc > 0 ? inside / tsc : 0;
        tsc = inside;
    } else if (exact && !fenced) {
        tsc -= bias_of(WINDOW).middle / out->rate;
        if (out->is_short) out->ns = tsc * tick_ns / (double)steps;
    }
    out->tsc = tsc / (double)steps;
    out->own = (tsc - others / tick_ns) / (double)steps;
    out->cycles = tsc * out->rate / (double)steps;
    out->level = probe_level(before, after);
    out->steady = is_steady(before, after);
}

/* -- what the readings add ---------------------------------------------------------------------------------------- */

/* Cycles of a link, which chains that are told from marks take a whole number of; 0 where this one does not, NaN where no moment
   tells. */
static double link_of(int at) {
    static double links[KINDS_KNOWN], found[20];
    int n = 0;
    if (at == NOTHING) return 0;
    if (links[at]) return links[at];
    for (int i = 0; i < 20; i++) {
        mark before = mark_before();
        uint64_t took = kinds[at].links(50);
        mark after = mark_after();
        if (is_steady(before, after)) found[n++] = (double)took * cycles_a_tick(before, after) / (50 * KNOWN);
    }
    if (n < 5) return 0.0 / 0.0;
    double link = tenth(found, n), whole = (double)(int)(link + 0.5);
    return links[at] = link >= 0.98 * whole && link <= 1.02 * whole ? whole : 0;
}
/* A kind of chain timed in one of the ways: cycles and nanoseconds of each. */
typedef struct { double cycles, ns, rate; int steady, quiet; } sample;
static sample sample_of(int at, const kind *what, long turn) {
    sample out = {0};
    window one = {0};
    pk_context pk = {.steps = at == MARKS ? KNOWN_STEPS : 1};
    before_known(turn);
    if (at == FENCE) {
        mark before = mark_before();
        uint64_t one_alone = what->fenced(1), took = what->fenced(1 + KNOWN_STEPS) - one_alone; /* without what the window adds */
        mark after = mark_after();
        out.rate = cycles_a_tick(before, after), out.cycles = (double)took * out.rate / KNOWN_STEPS;
        out.steady = is_steady(before, after), out.quiet = is_quiet(probe_level(before, after));
    } else if (at == PROGRAM) {
        program_window here = {.steady = 1};
        shared = &here, shared_by = own_process();
        what->of_program();
        shared = NULL;
        out.cycles = here.cycles, out.ns = here.ns, out.rate = here.rate;
        out.steady = here.steady, out.quiet = is_quiet(here.level);
    } else {
        once(at == MARKS ? what->marked : at == APART ? what->apart : what->alone, NULL, &pk, 1, 0, -1, &one);
        out.cycles = one.cycles, out.rate = one.rate, out.steady = one.steady, out.quiet = is_quiet(one.level);
    }
    return out;
}
/* Find what the readings add to each kind of chain; of one that never ran beside no busy neighbour what is known meanwhile. */
static void calibrate_way(int at) {
    static double all[2][600], wall[600];
    way *one = &ways[at];
    int most = at == MARKS || at == FENCE ? 60 : 600, was_fenced = fenced, was_exact = exact;
    fenced = exact = 0;
    for (int k = 0; k < KINDS_KNOWN; k++) {
        if (one->begun && one->found[k]) continue;
        double link = link_of(k), rate = 1;
        int n[2] = {0, 0};
        if (link == 0 && k != NOTHING) {
            one->beside[k] = 0.0 / 0.0, one->found[k] = 1;
            continue;
        }
        for (int i = 0; i < most; i++) {
            sample got = sample_of(at, &kinds[k], i);
            if (!got.steady) continue;
            rate = got.rate;
            all[0][n[0]++] = got.cycles;
            if (!got.quiet) continue;
            wall[n[1]] = got.ns;
            all[1][n[1]++] = got.cycles;
        }
        int calm = n[1] >= most / 20 && link == link;
        double grain = at == FENCE ? 0 : grain_of(1);
        one->beside[k] = about_tenth(all[calm], n[calm], grain * rate) - KNOWN * link;
        one->found[k] = calm;
        if (k == 0 && at == PROGRAM && calm) one->ns = about_tenth(wall, n[1], grain * tick_ns) - KNOWN * link / rate * tick_ns;
    }
    one->begun = 1;
    fenced = was_fenced, exact = was_exact;
}

/* What executions apart need. */
static void calibrate_apart(void) {
    calibrate_way(FENCE);
    calibrate_way(APART);
}

static long program_gave; /* how often programs of one thread gave the processor up in what was timed */
/* One window of a whole program; an execution is a run of main(). */
static const char *program_window_of(const char *program, int counter, window *out) {
    program_window one = {0};
    const char *fault = program_once(program, counter >= 0, &one);
    of_experiment += 1;
    if (!one.threads) program_gave += one.gave;
    if (one.steady) learn(one.level);
    double rate = one.rate > 0 ? one.rate : 1, added = bias_of(PROGRAM).middle, more = added - ways[PROGRAM].beside[0];
    out->tsc = one.ticks - one.pairs * added / rate;
    out->ns = one.ns - one.pairs * (ways[PROGRAM].ns + (more == more ? more / rate * tick_ns : 0));
    out->cycles = one.cycles - one.pairs * added;
    out->pairs = one.pairs, out->alone = one.waited <= WAITED * one.ns, out->own = out->tsc - one.waited / tick_ns;
    out->level = one.level, out->steady = one.steady, out->grain = grain_of(one.pairs), out->is_short = 1;
    out->rate = one.ticks > 0 ? one.cycles / one.ticks : one.rate;
    out->event = counter >= 0 ? one.event : 0.0 / 0.0;
    return fault;
}

#define HUGE_PAGE ((size_t)2 << 20)
#define BEYOND (2 * HUGE_PAGE) /* at least so much behind the memory's last page can be neither read nor written */
/* Zeros, of which every page is there; null: there is not so much. */
static char *new_memory(size_t size, int want_huge) {
    size_t page = want_huge ? HUGE_PAGE : 4096, whole = (size + page - 1) / page * page;
    size_t pages = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, room = pages + HUGE_PAGE + BEYOND;
    char *got = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return NULL;
    char *memory = (char *)(((uintptr_t)got + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
    madvise(memory, pages, want_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(memory, 0, size);
    return mprotect(memory + whole, (size_t)(got + room - memory) - whole, PROT_NONE) == 0 ? memory : NULL;
}

/* The windows of one run: figures of those that lie between equal chains, and of them the ones beside no busy neighbour. */
typedef struct { double tsc[LARGEST], ns[LARGEST], cycles[LARGEST], event[LARGEST], level[LARGEST], pairs[LARGEST]; int n; } windows_of;

static void take(windows_of *all, const window *one) {
    if (all->n == LARGEST) return;
    all->tsc[all->n] = one->tsc, all->ns[all->n] = one->ns, all->cycles[all->n] = one->cycles;
    all->event[all->n] = one->event, all->level[all->n] = one->level, all->pairs[all->n] = one->pairs;
    all->n++;
}
/* Where not every execution reaches the marks, windows hold more or fewer pairs of them, and the fastest are those with fewest:
   so each counts per pair, as often as pairs are in an execution on average. */
static void per_pair(windows_of *all, double pairs) {
    for (int i = 0; i < all->n; i++) {
        double times = all->pairs[i] > 0 ? pairs / all->pairs[i] : 1;
        all->tsc[i] *= times, all->ns[i] *= times, all->cycles[i] *= times;
    }
}
static double above_nothing(double value) { return value < 0 ? 0 : value; }
/* Cycles of the windows about the 10th percentile of the ticks, by the clock rate of each. Chosen by their cycles, they would
   be those whose chains seemed long: where the counter advances in steps a chain is up to a hundredth off, and beside long
   windows the rate is another one than within (0.3 to 0.5 % too few cycles of 1.5 million). `grain`: what lies that near to
   the percentile is the same reading. */
static double cycles_of(const windows_of *all, double grain) {
    static struct { double ticks, cycles; } sorted[LARGEST];
    int n = all->n, from = n / 20, to = n / 4 > from ? n / 4 : from + 1;
    double sum = 0;
    if (!n) return 0.0 / 0.0;
    for (int i = 0; i < n; i++) sorted[i].ticks = all->tsc[i], sorted[i].cycles = all->cycles[i];
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    double around = sorted[n / 10].ticks;
    while (from > 0 && sorted[from - 1].ticks >= around - grain) from--;
    while (to < n && sorted[to].ticks <= around + grain) to++;
    for (int i = from; i < to; i++) sum += sorted[i].cycles;
    return sum / (to - from);
}
/* By how much longer than the figure the quiet windows of all runs take on average, relative: of work that differs from one
   execution to the next, of which the 10th percentile is the fast kind. What lies within the counter's steps is none. Without the
   longest in thirty (of few windows, in ten), which interrupts may have met. */
static double all_ticks[LARGEST];
static int all_n;
/* The same of a pair of marks (of an execution without them), without what others had of the processor, also of windows that do not
   count for that: long ones seldom run alone. */
static double own_ticks[LARGEST];
static int own_n;
static double rated_ticks, rated_cycles; /* of all steady windows: what tells the rate of the clock */
static void take_ticks(const windows_of *run) {
    for (int i = 0; i < run->n && all_n < LARGEST; i++) all_ticks[all_n++] = run->tsc[i];
}
static double longer_on_average(double *ticks, int n, double grain, double *mean) {
    int kept = n - (n < 20 ? (n + 9) / 10 : (n + 29) / 30);
    double sum = 0, low = n < 10 ? 0 : about_tenth(ticks, n, grain); /* sorts them */
    for (int i = 0; i < kept; i++) sum += ticks[i];
    *mean = kept > 0 ? sum / kept : 0;
    return low > 0 && *mean - low > grain ? *mean / low - 1 : 0;
}
/* The longer a window, the more seldom it is quiet: of long ones also by their own time, whether they count or not. */
static void answer_varies(double grain, double pairs, int long_ones) {
    double quiet_mean = 0, mean = 0, quiet_ones = longer_on_average(all_ticks, all_n, grain, &quiet_mean);
    double all = long_ones ? longer_on_average(own_ticks, own_n, pairs > 0 ? grain / pairs : grain, &mean) : 0;
    double ticks = all <= quiet_ones ? quiet_mean : pairs > 0 ? mean * pairs : mean;
    fprintf(answers, "varies %.6g %.6g %.6g\n", all > quiet_ones ? all : quiet_ones, ticks, rated_ticks > 0 ? ticks * rated_cycles / rated_ticks : 0);
}
/* No steady window: the TSC and wall figures are still measurements; the cycles are unknown. Returns the cycles. */
static double answer(windows_of *any, windows_of *steady, windows_of *quiet, int tried, const window *last) {
    windows_of *used = quiet->n ? quiet : steady->n ? steady : any;
    int kept = used == any ? 0 : used->n, calm = used == quiet ? quiet->n : 0;
    double grain = last->grain;
    double cycles = kept ? cycles_of(used, grain) : 0.0 / 0.0;
    double event = kept ? tenth(used->event, kept) : 0.0 / 0.0;
    fprintf(answers, "run %.17g %.17g %.17g %.17g %d %d %d %.6g\n", above_nothing(about_tenth(used->tsc, used->n, grain)),
            above_nothing(about_tenth(used->ns, used->n, grain * tick_ns)), above_nothing(cycles), event, kept, tried, calm,
            tenth(used->level, used->n));
    fflush(answers);
    return cycles;
}

#include "rare.h"

/* Windows until enough lay beside no busy neighbour; returns how many there were. */
typedef struct { variant_function run, own_flush; const char *program; int windows, warmup, cold, counter; } timed;
static windows_of any, steady, quiet;
/* Up to as many as a window has, and sometimes one: so that windows are not in step with executions that take turns. */
static void any_number_of_executions(variant_function run, pk_context *pk) {
    static uint32_t LEARNT random = 1;
    random = random * 1664525u + 1013904223u;
    long steps = pk->steps, more = (long)((random >> 8) % (uint64_t)(steps + 1));
    if (!more) return;
    pk->steps = more;
    executions(run, pk);
    pk->steps = steps;
}
/* What only the first executions do (tables that are filled, branches that are learnt) is no part of what settles. */
#define WARM_UP 2e6 /* nanoseconds */
static void warm_up(variant_function run, pk_context *pk) {
    for (double begun = (double)nanoseconds(); (double)nanoseconds() - begun < WARM_UP;) {
        pk->pk_reports = pk->pk_kept;
        executions(run, pk);
    }
}
static int windows_of_run(const timed *what, pk_context *pk, window *last, const char **fault) {
    int tried = 0, most = 4 * what->windows;
    any.n = steady.n = quiet.n = 0;
    /* What lies around what is timed counts as well, of a program all that its process takes. */
    double begun = (double)nanoseconds(), began = begun, now = begun;
    while (quiet.n < what->windows && tried < most && (!tried || now - begun + (now - began) <= LONGEST_RUN)) {
        window one = {0};
        began = now;
        if (what->program) {
            *fault = program_window_of(what->program, what->counter, &one);
        } else {
            pk->pk_reports = pk->pk_kept;
            if (!what->cold && last->ns * (double)pk->steps < 5e7) any_number_of_executions(what->run, pk);
            once(what->run, what->own_flush, pk, what->warmup, what->cold, what->counter, &one);
        }
        if (one.mixed) *fault = "PK_BEGIN and PK_END of several threads lie among each other, and all threads share one pair of marks: put them "
                                "around the parallel part";
        else if (one.unpaired) *fault = "PK_BEGIN and PK_END do not come in pairs: each execution must begin what it ends, and end what it begins";
        else if (one.unreached) *fault = "PK_BEGIN and PK_END stand in the region, and a window of executions reached neither: they are what is to be "
                                         "timed. Where only some executions reach them, make what decides it a dimension, or ask for windows of "
                                         "more executions (steps); where the whole region is to be timed, leave them out (#if)";
        if (**fault) return tried;
        tried++;
        /* Over milliseconds the clock rate changes and neighbours come and go: such a window is not timed again. */
        if (one.ns * (double)pk->steps > 2e6) most = what->windows;
        *last = one;
        take(&any, &one);
        if (one.steady) {
            take(&steady, &one);
            rated_ticks += one.tsc, rated_cycles += one.cycles;
            if (is_quiet(one.level) && one.alone) take(&quiet, &one);
        }
        /* Beside an unsteady clock as well: the longer a window, the more often it is. */
        if (is_quiet(one.level) && own_n < LARGEST) own_ticks[own_n++] = one.pairs > 0 && !what->program ? one.own / one.pairs : one.own;
        if (one.ns * (double)pk->steps > LONG_WINDOW) watch_interrupts();
        now = (double)nanoseconds();
    }
    if (reached > 0) { /* not of programs, which count their own */
        double pairs = reached / executed;
        per_pair(&any, pairs), per_pair(&steady, pairs), per_pair(&quiet, pairs);
        if (last->pairs > 0) last->grain *= pairs / last->pairs, last->pairs = pairs;
    }
    return tried;
}
/* What executions of a cold region take behind a flush of as much other memory: as long, where no flush reaches what they read. */
#define UNFLUSHED_WINDOWS 20
#define UNFLUSHED_FOR 5e7 /* nanoseconds, from which three are enough */
static char *others_memory; /* all of its pages are the system's page of zeros */
static void flush_other(pk_context *pk) { pk_flush_range(others_memory, pk->memory_size); }
static void answer_unflushed(const timed *what, pk_context *pk) {
    double found[2][UNFLUSHED_WINDOWS];
    int n[2] = {0, 0};
    others_memory = mmap(NULL, pk->memory_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (others_memory == MAP_FAILED) return;
    flush_other(pk); /* maps it */
    uint64_t begun = nanoseconds();
    for (int i = 0; i < 3 * UNFLUSHED_WINDOWS && n[1] < UNFLUSHED_WINDOWS && (i < 3 || nanoseconds() - begun < UNFLUSHED_FOR); i++) {
        window one = {0};
        once(what->run, flush_other, pk, 1, 1, -1, &one);
        int calm = one.steady && is_quiet(one.level);
        if (calm || n[0] < UNFLUSHED_WINDOWS) found[calm][n[calm]++] = one.cycles;
    }
    fprintf(answers, "unflushed %.6g\n", above_nothing(tenth(found[n[1] > 0], n[n[1] > 0])));
}
/* Of a name that is reported twice, with two values, a row would keep one: which is no one's choice. */
static int twice_reported(const pk_context *pk) {
    if (*pk->pk_lost) return 0; /* names that were cut may be alike: that is told instead */
    for (int i = 0; i < pk->pk_reports && i < PK_REPORTS; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(pk->pk_reported[i].pk_name, pk->pk_reported[j].pk_name) && memcmp(&pk->pk_reported[i].pk_value, &pk->pk_reported[j].pk_value, sizeof(double))) {
                fprintf(answers, "error PK_REPORT of '%s': it is reported twice, with two values: name them differently\n", pk->pk_reported[i].pk_name);
                return 1;
            }
    return 0;
}
/* Keep one report of each name, as its last execution made it. */
static void merge_reports(pk_context *pk) {
    int n = 0;
    for (int i = 0; i < pk->pk_reports && i < PK_REPORTS; i++) {
        int at = 0;
        while (at < n && strcmp(pk->pk_reported[at].pk_name, pk->pk_reported[i].pk_name)) at++;
        pk->pk_reported[at] = pk->pk_reported[i];
        n += at == n;
    }
    pk->pk_reports = n;
}
/* How many pairs of marks are in an execution on average, and the square of that mean's relative standard error: by how far parts are apart, as a
   number of pairs that comes back every few executions is known better than one that is drawn. */
static void answer_pairs(void) {
    double squares = 0, mean = executed > 0 ? reached / executed : 0;
    if (mean <= 0 || parts_n < 3) return;
    for (int i = 0; i < parts_n; i++) {
        double more = parts[i].reached - (i ? parts[i - 1].reached : 0), of = parts[i].executed - (i ? parts[i - 1].executed : 0);
        squares += (more - mean * of) * (more - mean * of);
    }
    double square = squares * parts_n / (parts_n - 1) / reached / reached;
    if (square > 1e-18) fprintf(answers, "pairs %.6g %.6g\n", mean, square);
}
/* By how many cycles per execution the truth may lie below and above the figure for what the readings add, and up to which
   figure nothing tells it from none: a pair of marks reads no less than it does around nothing. */
static void answer_bias(int at, const window *last, long steps) {
    bias added = bias_of(at == FENCE ? APART : at), further = at == FENCE ? bias_of(FENCE) : (bias){.known = 1};
    double times = at == WINDOW || at == FENCE ? 1 / (double)steps : last->pairs, margin = at == FENCE ? MARGIN : MARGIN * times;
    double more = at == FENCE ? 1 - times : 0;
    double nothing = ways[at].beside[NOTHING] - bias_of(at).middle;
    nothing = added.known && further.known ? above_nothing(nothing) + MARGIN : 0.0 / 0.0;
    fprintf(answers, "bias %.6g %.6g %.6g\n", added.below * times + further.below * more + margin,
            added.above * times + further.above * more + margin, nothing * (at == FENCE ? 1 : times));
}
/* Executions one after the other: their cycles. */
static void answer_apart(const timed *what, pk_context *pk, fences_function fences) {
    const char *fault = "";
    if (what->program || pk->steps == 1 || pk->pk_marked || fenced) { fprintf(answers, "apart same\n"); return; }
    if (!set_fences(fences, 1)) { fprintf(answers, "apart nan\n"); return; }
    calibrate_apart();
    fenced = 1;
    window last = {0};
    windows_of_run(what, pk, &last, &fault);
    fenced = 0;
    set_fences(fences, 0);
    fprintf(answers, "apart %.17g\n", above_nothing(cycles_of(quiet.n ? &quiet : &steady, last.grain)));
}

static void serve(const char *object, const char *variant, int repetitions, int windows, long steps, int warmup, int cold, size_t size, int huge,
                  int threads, int apart, int marks, int kind_of_code, int is_program, long event_type, unsigned long long event_config) {
    const char *program = is_program ? object : NULL; /* which its windows load */
    void *library = program ? NULL : dlopen(object, RTLD_NOW | RTLD_LOCAL);
    if (!program && !library) { fprintf(answers, "error %s\n", dlerror()); return; }
    variant_function run = NULL, setup = NULL, teardown = NULL, own_flush = NULL;
    fences_function fences = NULL;
    if (library) {
        *(void **)&run = dlsym(library, "pk_run");
        *(void **)&setup = dlsym(library, "pk_setup");
        *(void **)&teardown = dlsym(library, "pk_teardown");
        *(void **)&own_flush = dlsym(library, "pk_flush");
        *(void **)&fences = dlsym(library, "pk_fences");
    }
    has_marks = marks, code = kind_of_code;
    if (!run && !program) { fprintf(answers, "error no region in the object\n"); return; }
    if (size < 4096) size = 4096;
    char *memory = program ? NULL : new_memory(size, huge);
    if (!program && !memory) { fprintf(answers, "error no memory: %zu bytes, more than there are or than the study's limits allow\n", size); return; }
    int counter = -1;
    if (event_type >= 0 && (counter = open_event((unsigned)event_type, event_config)) < 0) {
        fprintf(answers, "error no counter: %s\n", strerror(errno));
        return;
    }
    program_event_type = (unsigned)event_type, program_event_config = event_config;
    if (apart) calibrate_apart();
    fenced = apart && set_fences(fences, 1) > 0;
    pk_context pk;
    memset(&pk, 0, sizeof pk);
    pk.memory = memory;
    pk.memory_size = size;
    pk.threads = threads;
    pk.steps = 1;
    if (setup) setup(&pk);
    pk.pk_kept = pk.pk_reports < PK_REPORTS ? pk.pk_reports : PK_REPORTS;
    if (apart && !fenced) {
        run(&pk); /* a region that never ends has no place for a fence: whoever reads this learns how it ended instead */
        fprintf(answers, "error no fence could be put between the executions of the region\n");
        return;
    }
    window one = {0};
    exact = 0;
    if (program)
        pk.steps = 1;
    else {
        pk.pk_reports = pk.pk_kept;
        once(run, own_flush, &pk, 0, cold, -1, &one);
        if (twice_reported(&pk)) return;
        pk.steps = steps > 0 ? steps : 1;
        if (pk.steps > 1) once(run, own_flush, &pk, 0, cold, -1, &one); /* tells whether the region has marks */
        while (steps <= 0) { /* as many executions as fill a short window: long windows catch interrupts and frequency changes */
            once(run, own_flush, &pk, 0, cold, -1, &one);
            if (one.tsc * (double)pk.steps >= TARGET_TICKS || pk.steps >= (fenced ? 1 << 10 : 1 << 20)) break;
            pk.steps *= 2;
        }
    }
    fprintf(answers, "begin %s %ld %llu\n", variant, pk.steps, (unsigned long long)clock_overhead);
    int at = program ? PROGRAM : pk.pk_marked ? MARKS : fenced ? FENCE : WINDOW;
    if (at != FENCE) calibrate_way(at);
    exact = 1;
    timed what = {run, own_flush, program, windows, warmup, cold, counter};
    no_executions_yet();
    if (!program && !cold && warmup > 0) warm_up(run, &pk);
    end_part();
    double known = sentinel();
    lost_ns = watched_ns = 0;
    all_n = own_n = 0;
    rated_ticks = rated_cycles = 0;
    program_gave = 0;
    of_experiment = 0; /* counted, as waits are, from here on: the first executions may wait for what they alone need */
    long gave = gave_way();
    for (int repetition = 0; repetition < repetitions; repetition++) {
        const char *fault = "";
        int tried = windows_of_run(&what, &pk, &one, &fault);
        end_part();
        take_ticks(&quiet);
        double cycles = *fault ? 0 : answer(&any, &steady, &quiet, tried, &one);
        double added = program ? bias_of(PROGRAM).middle - ways[PROGRAM].beside[0] : 0; /* as if integers ended it, which takes least */
        if (program && !*fault && cycles + (added > 0 ? added : 0) < 2) fault = "the program's region takes less than 2 cycles, which no reading of the clock tells from "
                                                      "nothing: repeat its work, and keep the compiler from removing it";
        if (*fault) { fprintf(answers, "error %s\n", fault); return; }
    }
    answer_bias(at, &one, pk.steps);
    answer_pairs();
    double window_ns = one.ns * (double)pk.steps;
    int long_ones = program || cold || window_ns > ASKED;
    answer_varies(one.grain, program ? 0 : one.pairs, long_ones);
    if (counter < 0) answer_rare(program || cold ? NULL : run, &pk, window_ns, own_ticks, long_ones ? own_n : 0);
    gave = program ? program_gave : gave_way() - gave;
    if (threads == 1 && gave > 0) fprintf(answers, "gave %ld %.0f\n", gave, of_experiment);
    if (watched_ns > 0) fprintf(answers, "lost %.6g\n", lost_ns / watched_ns + WAITED);
    if (one.grain > 0 && one.is_short)
        fprintf(answers, "grain %.6g %.6g %d\n", clock_step, clock_step * one.rate, !program && pk.pk_marked);
    if (counter < 0 && cold && !program && !own_flush) answer_unflushed(&what, &pk);
    if (counter < 0) answer_apart(&what, &pk, fences);
    double again = sentinel();
    merge_reports(&pk);
    if (teardown) teardown(&pk);
    if (twice_reported(&pk)) return;
    if (*pk.pk_lost) {
        fprintf(answers, "error PK_REPORT: %s...: a row holds %d reports of at most %d letters each\n", pk.pk_lost, PK_REPORTS, PK_REPORT_NAME - 1);
        return;
    }
    for (int i = 0; i < pk.pk_reports && i < PK_REPORTS; i++) fprintf(answers, "report %s %.17g\n", pk.pk_reported[i].pk_name, pk.pk_reported[i].pk_value);
    fprintf(answers, "sentinel %.6g %.6g\n", known >= again || again != again ? known : again, quiet_level);
    fprintf(answers, "end %s\n", variant);
}

/* Serve a request in a process of its own: whatever its code sets there (the locale, limits, handlers of signals, its own
   variables) holds for no other, as does what lies in memory. What is learnt of the core meanwhile comes back. Libraries lie at
   other addresses each time, as if this had been started for the request alone. */
#define PLACES 8192 /* pages */
#define LEARNT_BYTES ((size_t)(__stop_learnt - __start_learnt))
typedef struct { int served; char learnt[]; } passed_on;
static passed_on *passed;
static int ready_to_pass(void) {
    passed = mmap(NULL, sizeof *passed + LEARNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return passed != MAP_FAILED;
}
/* Have code, heap and stack (`room`: bytes of it to leave) lie elsewhere; returns how much of the address space that takes. */
static size_t go_elsewhere(size_t *room) {
    uint32_t drawn = (uint32_t)(nanoseconds() ^ ticks_before() << 7) * 2654435761u;
    char *volatile kept = malloc((drawn >> 5) % 4096 * 16 + 1);
    (void)kept;
    *room = drawn % 4096 * 16 + 16;
    return fill_holes(((size_t)(drawn >> 16) % PLACES + 1) * 4096);
}
static pid_t begin_apart(void) {
    passed->served = 0;
    pid_t child = fork();
    if (child < 0) fprintf(answers, "error no process to measure in: %s\n", strerror(errno));
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return 0;
}
static void end_apart(void) {
    memcpy(passed->learnt, __start_learnt, LEARNT_BYTES);
    passed->served = 1;
    fflush(NULL);
    _exit(0);
}
/* End as it did, where its code ended it: whoever reads the answers tells by that what happened. */
static void wait_for(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) _exit(1);
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        kill(getpid(), WTERMSIG(status));
    }
    if (!passed->served) _exit(WEXITSTATUS(status));
    memcpy(__start_learnt, passed->learnt, LEARNT_BYTES);
}

static void limit(int what, const char *text, size_t more) {
    struct rlimit bound;
    unsigned long long value = strtoull(text, NULL, 10) + more;
    if (value == more || getrlimit(what, &bound) != 0) return;
    if (bound.rlim_max == RLIM_INFINITY || value < bound.rlim_max) bound.rlim_max = value;
    bound.rlim_cur = bound.rlim_max;
    setrlimit(what, &bound);
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

static void keep_for_itself(FILE *file) {
    fcntl(fileno(file), F_SETFD, FD_CLOEXEC);
}

int main(int count, char **words) {
    if (count != 8) return 2;
    FILE *requests = fdopen(atoi(words[1]), "r");
    answers = fdopen(atoi(words[2]), "w");
    if (!requests || !answers || !ready_to_pass()) return 2;
    keep_for_itself(requests);
    keep_for_itself(answers);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a killed caller leaves no kernel running */
    int pinned = words[3][0] ? pin(words[3]) : 0;
    struct sched_param priority = {.sched_priority = 1};
    int fifo = strcmp(words[4], "fifo") == 0 && sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
    limit(RLIMIT_FSIZE, words[6], 0);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    calibrate(strtod(words[7], NULL));
    fprintf(answers, "ready %llu %llu %d %d\n", (unsigned long long)clock_overhead, (unsigned long long)time_overhead, pinned, fifo);
    fflush(answers);
    static char object[4096], variant[64];
    int repetitions, windows, warmup, cold, huge, threads, apart, marks, kind_of_code, is_program;
    long steps, event_type;
    size_t size;
    unsigned long long event_config;
    while (fscanf(requests, "%4095s %63s %d %d %ld %d %d %zu %d %d %d %d %d %d %ld %llu", object, variant, &repetitions, &windows, &steps,
                  &warmup, &cold, &size, &huge, &threads, &apart, &marks, &kind_of_code, &is_program, &event_type, &event_config) == 16) {
        if (windows > LARGEST) windows = LARGEST;
        pid_t child = begin_apart();
        if (child == 0) {
            size_t room = 16, taken = is_program ? 0 : go_elsewhere(&room);
            *(volatile char *)__builtin_alloca(room) = 0;
            limit(RLIMIT_AS, words[5], taken);
            serve(object, variant, repetitions, windows, steps, warmup, cold, size, huge, threads, apart, marks, kind_of_code, is_program, event_type,
                  event_config);
            end_apart();
        }
        if (child > 0) wait_for(child);
        fflush(answers);
    }
    return 0;
}
