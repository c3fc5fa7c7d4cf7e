/* Whole programs: each window is a process that is started anew (not forked: branch predictors would know it from the window
   before) and runs main() once. What lies between pk_start() and pk_stop() is timed, or all of main() if it calls neither: window.c,
   which is linked into the program. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "marks.h"

#define MOST_WORDS 1024 /* of a command line */
static window_state *state; /* which both see */
static int state_file;
static unsigned program_event_type; /* of its own in each window: the measuring process, which waits, is not counted */
static unsigned long long program_event_config;

static int ready_window(int counted) {
    if (!state) {
        state_file = memfd_create("perfkit window", 0);
        if (state_file < 0 || ftruncate(state_file, (off_t)(sizeof *state))) return 0;
        state = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, state_file, 0);
        if (state == MAP_FAILED) state = NULL;
        if (!state) return 0;
    }
    memset(state, 0, sizeof *state);
    state->counted = counted, state->type = program_event_type, state->config = program_event_config;
    state->clock_overhead = clock_overhead, state->link_cycles = link_cycles;
    state->chain_excess = chain_excess, state->tick_ns = tick_ns;
    return 1;
}
/* The words of a program's command line lie beside it, each with a 0 at its end. */
static char **words_of(const char *program) {
    static char *words[MOST_WORDS + 1], *text, path[4200];
    size_t size = 0;
    if (text) return words;
    snprintf(path, sizeof path, "%s.words", program);
    FILE *file = fopen(path, "re");
    if (!file || !(text = calloc(1 << 20, 1))) return NULL;
    size = fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    for (size_t at = 0, n = 0; at < size && n < MOST_WORDS; at += strlen(text + at) + 1) words[n++] = text + at;
    return words;
}
/* Become the program; of whoever cannot, why. */
static int become(const char *program) {
    char named[16], **words = words_of(program);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(named, sizeof named, "%d", state_file);
    if (words && setenv(OF_WINDOW, named, 1) == 0) execv(program, words);
    return errno;
}
/* Returns "" or what went wrong. */
static const char *program_once(const char *program, int counted, program_window *out) {
    static char fault[240];
    if (!ready_window(counted)) return "no memory for a window";
    fflush(NULL); /* what is buffered now must not be written by the window as well */
    pid_t child = fork();
    if (child < 0) return "no process for the program";
    if (child == 0) {
        state->window.returned = become(program);
        _exit(1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return "lost the program's process";
    *out = state->window;
    if (!out->finished) out->threads = 1; /* ended by _exit: nobody asked */
    if (WIFSIGNALED(status))
        snprintf(fault, sizeof fault, "the program crashed: signal %d", WTERMSIG(status));
    else if (!state->begun && out->returned)
        snprintf(fault, sizeof fault, "the program cannot be started: %s", strerror(out->returned));
    else if (!state->begun)
        snprintf(fault, sizeof fault, "the program ended with exit status %d before main(): by a constructor, or as a library is missing (ldd tells)",
                 WEXITSTATUS(status));
    else if (WEXITSTATUS(status) || out->returned)
        snprintf(fault, sizeof fault, "the program returned %d", out->returned ? out->returned : WEXITSTATUS(status));
    else if (!out->finished && (out->whole || out->running))
        snprintf(fault, sizeof fault, "the program ended by _exit, or became another one, before its region did");
    else if (state->has_region && out->whole)
        snprintf(fault, sizeof fault, "no call of the functions of `region` was seen: calls within the file that defines them "
                 "cannot be; call pk_start() and pk_stop() of perfkit.h instead");
    else if (has_marks && out->whole)
        snprintf(fault, sizeof fault, "pk_start() and pk_stop() stand in the program, and neither was called within main(): what lies between them is to be timed; "
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
