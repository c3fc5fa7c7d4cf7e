/* Whole programs: each window is a child process that runs main() once. What lies between pk_start() and pk_stop() is
   timed, or all of main() if it calls neither. The child starts from the state that the loader left, whatever the
   program did to its globals in the window before. */
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

static program_window *shared; /* between the child and the measuring process */
static int program_counter = -1;
static unsigned program_event_type; /* of its own in each child: the measuring process, which waits, is not counted */
static unsigned long long program_event_config;
static int program_has_region; /* the study names functions that begin and end what is timed */

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

static int ready_window(void) {
    if (shared) return 1;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) shared = NULL;
    return shared != NULL;
}
/* Returns "" or what went wrong. */
static const char *program_once(int (*program)(char **), int counted, program_window *out) {
    static char fault[240];
    extern char **environ;
    if (!ready_window()) return "no memory for a window";
    memset(shared, 0, sizeof *shared);
    shared->steady = shared->whole = 1;
    fflush(NULL); /* what is buffered now must not be written by the child as well */
    pid_t child = fork();
    if (child < 0) return "no process for the program";
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fileno(answers));
        on_exit(program_ends, NULL);
        program_counter = counted ? open_event(program_event_type, program_event_config) : -1;
        shared->running = INSIDE;
        region_begin();
        exit(program(environ));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return "lost the program's process";
    *out = *shared;
    if (WIFSIGNALED(status))
        snprintf(fault, sizeof fault, "the program crashed: signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) || out->returned)
        snprintf(fault, sizeof fault, "the program returned %d", out->returned ? out->returned : WEXITSTATUS(status));
    else if (!out->finished)
        snprintf(fault, sizeof fault, "the program ended by _exit before its region did");
    else if (program_has_region && out->whole)
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
