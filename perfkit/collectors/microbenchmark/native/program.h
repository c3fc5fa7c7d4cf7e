/* Whole programs: each window is a process that was started anew (not forked: branch predictors would know it from the window
   before, and pages of its own data be copied), loads the program and runs main() once. What lies between pk_start() and
   pk_stop() is timed, or all of main() if it calls neither.
   usage: measure window STATE OBJECT COUNTED TYPE CONFIG; STATE is an inherited descriptor of what both processes see. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    mark before;
    uint64_t begin, begin_ns;
    int running, whole; /* whole: main() itself is what is timed, until a mark is met */
    int pairs, steady, quiet, finished, unpaired, returned, threads; /* threads: whether it had others beside main()'s */
    long gave; /* how often what is timed gave the processor up by itself */
    double ticks, ns, cycles, level, event, count, rate, waited;
} program_window;

static program_window *shared; /* of a window's process: what it tells the measuring process, once its program is loaded */
static int program_counter = -1;
static unsigned program_event_type; /* of its own in each window: the measuring process, which waits, is not counted */
static unsigned long long program_event_config;

/* What both processes see. */
#define LEARNT_BYTES ((size_t)(__stop_learnt - __start_learnt))
typedef struct {
    program_window window;
    char fault[240]; /* why the program was not run; "" */
    int has_region;  /* the study names functions that begin and end what is timed */
    char learnt[];
} window_state;
static window_state *state;
static int state_file;

/* Go from one state to the next, at one moment, for threads may meet here; whether it was another state. */
enum { OUTSIDE, INSIDE, ENDING };
static int is_unpaired(int from, int to) { return !__atomic_compare_exchange_n(&shared->running, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); }
static void region_begin(void) {
    shared->waited -= waited();
    shared->gave -= gave_way();
    shared->before = mark_before();
    if (program_counter >= 0) shared->count = event_begins(program_counter);
    shared->begin_ns = nanoseconds();
    shared->begin = ticks_before();
}
static void region_end(uint64_t end) {
    uint64_t ticks = end - shared->begin, ns = nanoseconds() - shared->begin_ns;
    if (program_counter >= 0) shared->event += event_ends(program_counter, shared->count);
    else shared->event = 0.0 / 0.0;
    tidy_up();
    mark after = mark_after();
    double inside = (double)ticks - (double)clock_overhead;
    double level = probe_level(shared->before, after);
    shared->ticks += inside;
    shared->ns += (double)ns - (double)time_overhead;
    shared->rate = cycles_a_tick(shared->before, after);
    shared->cycles += inside * cycles_a_tick(shared->before, after);
    shared->steady &= is_steady(shared->before, after);
    if (level > shared->level) shared->level = level;
    shared->waited += waited();
    shared->gave += gave_way();
    shared->pairs++;
}
__attribute__((visibility("default"))) void pk_start(void) {
    if (!shared) return;
    if (shared->whole) { /* the program marks its region: what ran until now does not count */
        memset(shared, 0, sizeof *shared);
        shared->steady = 1;
    }
    if (is_unpaired(OUTSIDE, INSIDE)) shared->unpaired++; /* also while another thread still reads what its region began with */
    else region_begin();
}
__attribute__((visibility("default"))) void pk_stop(void) {
    uint64_t end = ticks_after();
    if (!shared) return;
    int lone = is_unpaired(INSIDE, ENDING);
    shared->unpaired += shared->whole || lone;
    if (lone) return;
    region_end(end);
    is_unpaired(ENDING, OUTSIDE);
}
/* Whether the process had other threads than this one, each of which met a page fault at least. */
static int has_others(void) {
    struct rusage all, mine;
    return getrusage(RUSAGE_SELF, &all) || getrusage(RUSAGE_THREAD, &mine) || all.ru_minflt > mine.ru_minflt;
}
/* The whole of what main() returned, or exit() was given: the system passes on its last eight bits alone. */
static void program_ends(int returned, void *unused) {
    uint64_t end = ticks_after();
    (void)unused;
    if (shared->whole && !is_unpaired(INSIDE, OUTSIDE)) region_end(end);
    shared->finished = 1;
    shared->returned = returned;
    shared->threads = has_others();
}

static int map_state(void) {
    state = mmap(NULL, sizeof *state + LEARNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, state_file, 0);
    if (state == MAP_FAILED) state = NULL;
    return state != NULL;
}
static int ready_window(void) {
    if (!state) {
        state_file = memfd_create("perfkit window", 0);
        if (state_file < 0 || ftruncate(state_file, (off_t)(sizeof *state + LEARNT_BYTES)) || !map_state()) return 0;
    }
    memset(state, 0, sizeof *state);
    state->window.steady = state->window.whole = 1;
    memcpy(state->learnt, __start_learnt, LEARNT_BYTES);
    return 1;
}
/* What a window's process does: ends as its program does, or without `finished`. */
static void no_window(const char *why) {
    snprintf(state->fault, sizeof state->fault, "%s", why);
    _exit(1);
}
/* Called for nothing: the first call of each finds neither its page nor its lines, which is no part of any program. */
static void try_marks(void) {
    for (int i = 0; i < 5; i++) {
        pk_start();
        pk_stop();
    }
    program_ends(0, NULL);
    memset(shared, 0, sizeof *shared);
    shared->steady = shared->whole = 1;
}
static int run_window(char **words) {
    extern char **environ;
    state_file = atoi(words[0]);
    if (!map_state()) return 1;
    close(state_file);
    memcpy(__start_learnt, state->learnt, LEARNT_BYTES);
    void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) no_window(dlerror());
    int (*program)(char **);
    *(void **)&program = dlsym(library, "pk_program");
    if (!program) no_window("no main() in the object");
    state->has_region = dlsym(library, "pk_has_region") != NULL;
    program_counter = atoi(words[2]) ? open_event((unsigned)atol(words[3]), strtoull(words[4], NULL, 10)) : -1;
    shared = &state->window;
    try_marks();
    on_exit(program_ends, NULL);
    shared->running = INSIDE;
    region_begin();
    int returned = program(environ);
    uint64_t end = ticks_after();
    if (shared->whole && !is_unpaired(INSIDE, OUTSIDE)) region_end(end);
    exit(returned); /* what it left for this moment is no part of main() */
}
/* Returns "" or what went wrong. */
static const char *program_once(const char *object, int counted, program_window *out) {
    static char fault[240];
    if (!ready_window()) return "no memory for a window";
    fflush(NULL); /* what is buffered now must not be written by the window as well */
    pid_t child = fork();
    if (child < 0) return "no process for the program";
    if (child == 0) {
        char file[16], kind[24], config[24];
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(file, sizeof file, "%d", state_file);
        snprintf(kind, sizeof kind, "%u", program_event_type);
        snprintf(config, sizeof config, "%llu", program_event_config);
        execl("/proc/self/exe", "measure", "window", file, object, counted ? "1" : "0", kind, config, (char *)NULL);
        no_window("the measuring process cannot be started again from /proc/self/exe");
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return "lost the program's process";
    *out = state->window;
    if (!out->finished) out->threads = 1; /* ended by _exit: nobody asked */
    if (*state->fault) return state->fault;
    if (WIFSIGNALED(status))
        snprintf(fault, sizeof fault, "the program crashed: signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) || out->returned)
        snprintf(fault, sizeof fault, "the program returned %d", out->returned ? out->returned : WEXITSTATUS(status));
    else if (!out->finished && (out->whole || out->running))
        snprintf(fault, sizeof fault, "the program ended by _exit, or became another one, before its region did");
    else if (state->has_region && out->whole)
        snprintf(fault, sizeof fault, "no call of the functions of `region` was seen: calls within the file that defines them "
                 "cannot be; call pk_start() and pk_stop() of perfkit.h instead");
    else if (has_marks && out->whole)
        snprintf(fault, sizeof fault, "pk_start() and pk_stop() stand in the program, and neither was called: what lies between them is to be timed; "
                 "where all of main() is, leave them out (#if)");
    else if (out->running)
        snprintf(fault, sizeof fault, "the program began its region and never ended it");
    else if (out->unpaired)
        snprintf(fault, sizeof fault, "the program began its region twice, or ended it without having begun it: pk_start() and pk_stop(), or the "
                 "functions of `region`, come in pairs, of which all threads share one");
    else if (!out->pairs)
        snprintf(fault, sizeof fault, "the program timed nothing");
    else
        fault[0] = 0;
    return fault;
}
