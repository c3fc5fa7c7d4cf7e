/* Marks of whole programs: what lies between pk_start() and pk_stop() is timed. A window's process (window.c) has them in its program; the
   measuring process calls its own to find out what they add. */
#ifndef PERFKIT_MARKS_H
#define PERFKIT_MARKS_H
#include "clock.h"
#include "system.h"

typedef struct {
    mark before;
    uint64_t begin;
    int running, whole; /* whole: main() itself is what is timed, until a mark is met */
    int pairs, steady, finished, unpaired, returned, threads; /* threads: whether it had others beside main()'s */
    long gave; /* how often what is timed gave the processor up by itself */
    double ticks, ns, cycles, level, event, count, rate, waited;
} program_window;

static program_window *shared; /* what is told of a window; NULL: nothing is timed */
static int shared_by;          /* the process that it is of, not one that it forked */
static int program_counter; /* its descriptor; 0: no event is counted */
static int is_another(void) { return own_process() != shared_by; }

/* What the measuring process and that of a window see. */
typedef struct {
    program_window window;
    int begun;      /* whether the program was loaded, and came to its main() */
    int has_region; /* the study names functions that begin and end what is timed */
    int counted;    /* whether an event is: of type and config */
    unsigned type;
    unsigned long long config;
    uint64_t clock_overhead; /* what the measuring process knows of the clock */
    double link_cycles, chain_excess, tick_ns;
} window_state;
#define OF_WINDOW "PERFKIT_WINDOW" /* the environment's variable that names the descriptor of that */

/* Go from one state to the next, at one moment, for threads may meet here; whether it was another state. */
enum { OUTSIDE, INSIDE, ENDING };
static int is_unpaired(int from, int to) { return !__atomic_compare_exchange_n(&shared->running, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); }
static void region_begin(void) {
    shared->waited -= waited();
    shared->gave -= gave_way();
    shared->before = mark_before();
    if (program_counter > 0) shared->count = event_begins(program_counter);
    shared->begin = ticks_before();
}
static void region_end(uint64_t end) {
    uint64_t ticks = end - shared->begin;
    if (program_counter > 0) shared->event += event_ends(program_counter, shared->count);
    else shared->event = 0.0 / 0.0;
    tidy_up();
    mark after = mark_after();
    double inside = (double)ticks - (double)clock_overhead;
    double level = probe_level(shared->before, after);
    shared->ticks += inside;
    shared->ns += inside * tick_ns;
    shared->rate = cycles_a_tick(shared->before, after);
    shared->cycles += inside * cycles_a_tick(shared->before, after);
    shared->steady &= is_steady(shared->before, after);
    if (level > shared->level) shared->level = level;
    shared->waited += waited();
    shared->gave += gave_way();
    shared->pairs++;
}
__attribute__((visibility("default"))) void pk_start(void) {
    if (!shared || is_another()) return;
    if (shared->whole) *shared = (program_window){.steady = 1}; /* the program marks its region: what ran until now does not count */
    if (is_unpaired(OUTSIDE, INSIDE)) shared->unpaired++; /* also while another thread still reads what its region began with */
    else region_begin();
}
__attribute__((visibility("default"))) void pk_stop(void) {
    uint64_t end = ticks_after();
    if (!shared || is_another()) return;
    int lone = is_unpaired(INSIDE, ENDING);
    shared->unpaired += shared->whole || lone;
    if (lone) return;
    region_end(end);
    is_unpaired(ENDING, OUTSIDE);
}
#endif
