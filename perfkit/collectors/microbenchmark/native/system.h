/* What is asked of the system around a window, without the C library: a program of which that were the first to call it would find
   its pages there, which are faults of a program that runs by itself. */
#ifndef PERFKIT_SYSTEM_H
#define PERFKIT_SYSTEM_H
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static inline long ask(long what, long a, long b, long c, long d, long e, long f) {
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    long found;
    __asm__ volatile("syscall" : "=a"(found) : "a"(what), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth) : "rcx", "r11", "memory");
    return found;
}
static int own_process(void) { return (int)ask(SYS_getpid, 0, 0, 0, 0, 0, 0); }
static int usage_of(int who, struct rusage *out) { return (int)ask(SYS_getrusage, who, (long)out, 0, 0, 0, 0); }

static int open_event(unsigned type, unsigned long long config) {
    struct perf_event_attr attributes = {.type = type, .size = sizeof attributes, .config = config, .disabled = 1, .inherit = 1, .exclude_hv = 1};
    attributes.exclude_kernel = type != PERF_TYPE_SOFTWARE;
    return (int)ask(SYS_perf_event_open, (long)&attributes, 0, -1, -1, 0, 0);
}
/* The count so far. What is counted is the difference of two: a reset leaves what an inherited counter collected from
   the threads and processes that have ended. */
static double event_count(int counter) {
    uint64_t count = 0;
    return ask(SYS_read, counter, (long)&count, sizeof count, 0, 0, 0) == (long)sizeof count ? (double)count : 0.0 / 0.0;
}
static double event_begins(int counter) {
    double before = event_count(counter);
    ask(SYS_ioctl, counter, PERF_EVENT_IOC_ENABLE, 0, 0, 0, 0);
    return before;
}
static double event_ends(int counter, double before) {
    ask(SYS_ioctl, counter, PERF_EVENT_IOC_DISABLE, 0, 0, 0, 0);
    return event_count(counter) - before;
}

/* Nanoseconds for which this thread was ready and others had the processor: what a window of that is worth no clock tells,
   beyond a small share. Where the system does not say, how often that happened, each as if it were long. */
#define WAITED 0.002
static double waited(void) {
    static int file, whose; /* each process has its own */
    char said[100];
    if (whose != own_process()) {
        if (whose && file >= 0) ask(SYS_close, file, 0, 0, 0, 0, 0);
        file = (int)ask(SYS_open, (long)"/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC, 0, 0, 0, 0), whose = own_process();
    }
    long length = file < 0 ? -1 : ask(SYS_pread64, file, (long)said, sizeof said, 0, 0, 0), at = 0;
    while (at < length && said[at] != ' ') at++; /* how long it ran; then how long it waited */
    double waiting = 0;
    long digits = at + 1;
    for (at = digits; at < length && said[at] >= '0' && said[at] <= '9'; at++) waiting = 10 * waiting + (said[at] - '0');
    struct rusage used;
    return at > digits ? waiting : usage_of(RUSAGE_SELF, &used) ? 0 : 1e12 * (double)used.ru_nivcsw;
}
/* How often this thread gave the processor up by itself: it sleeps, or waits for something. */
static long gave_way(void) {
    struct rusage used;
    return usage_of(RUSAGE_THREAD, &used) ? 0 : used.ru_nvcsw;
}
#endif
