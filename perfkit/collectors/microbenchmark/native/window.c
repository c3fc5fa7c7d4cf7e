/* Linked into a whole program: runs its main() as a window of measure.c's. Nothing of the C library is called before that, so that the
   program finds its pages as one that runs by itself does. Its own names are changed behind the compiler, or they would be the program's. */
#define _GNU_SOURCE
/* Nothing of it has a value from the start: its own data are zeros, behind all of the program's, on pages of their own (compile.py). */
#define LEARNT
#define AT_FIRST(value)
#include <sys/mman.h>
#include "perfkit.h"
#include "marks.h"

extern int pk_has_region __attribute__((weak));
int __real_main(int, char **, char **);
void __real_exit(int) __attribute__((noreturn));
static window_state *state;

/* Whether the process had other threads than this one, each of which met a page fault at least. */
static int has_others(void) {
    struct rusage all, mine;
    return usage_of(RUSAGE_SELF, &all) || usage_of(RUSAGE_THREAD, &mine) || all.ru_minflt > mine.ru_minflt;
}
static void whole_ends(uint64_t end) {
    if (shared && !is_another() && shared->whole && !is_unpaired(INSIDE, OUTSIDE)) region_end(end);
}
/* What main() returned, or exit() was given, as a whole: the system passes on its last eight bits alone. */
static void returns(int returned) {
    if (shared && !is_another()) shared->returned = returned;
}
/* Also where a library called exit(). */
__attribute__((destructor)) static void program_ends(void) {
    uint64_t end = ticks_after();
    if (!shared || is_another()) return;
    whole_ends(end);
    shared->finished = 1;
    shared->threads = has_others();
}
/* Called for nothing: the first call of each finds neither its page nor its lines, which is no part of any program. */
static void try_marks(void) {
    for (int i = 0; i < 5; i++) {
        pk_start();
        pk_stop();
    }
    has_others();
    *shared = (program_window){.steady = 1, .whole = 1};
}
/* The descriptor that the environment names, which is taken out of it; -1: there is none. */
static int named_in(char **environment) {
    for (char **at = environment; *at; at++) {
        const char *name = OF_WINDOW "=", *text = *at;
        while (*name && *name == *text) name++, text++;
        if (*name) continue;
        int found = 0;
        for (; *text >= '0' && *text <= '9'; text++) found = 10 * found + (*text - '0');
        for (; *at; at++) at[0] = at[1];
        return found;
    }
    return -1;
}
static int ready(int file) {
    long at = ask(SYS_mmap, 0, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ask(SYS_close, file, 0, 0, 0, 0, 0);
    if (at < 0 && at > -4096) return 0;
    state = (window_state *)at;
    clock_overhead = state->clock_overhead, link_cycles = state->link_cycles;
    chain_excess = state->chain_excess, tick_ns = state->tick_ns;
    shared = &state->window, shared_by = own_process();
    state->has_region = &pk_has_region != NULL;
    program_counter = state->counted ? open_event(state->type, state->config) : 0;
    try_marks();
    state->begun = 1;
    return 1;
}
int __wrap_main(int count, char **words, char **environment) {
    int file = named_in(environment);
    if (file < 0 || !ready(file)) return __real_main(count, words, environment);
    shared->running = INSIDE;
    region_begin();
    int returned = __real_main(count, words, environment);
    whole_ends(ticks_after());
    returns(returned);
    return returned;
}
/* What a program leaves for its end is no part of main(). */
__attribute__((noreturn)) void __wrap_exit(int returned) {
    whole_ends(ticks_after());
    returns(returned);
    __real_exit(returned);
}
