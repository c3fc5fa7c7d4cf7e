/* Core cycles of a turn of a loop over one basic block, in a child process of its own for each block (x86-64, Linux).

     harness PROCESSOR FIRST_PATIENCE < lines

   A line of input: NUMBER LOOP VECTORS COUNTER PATIENCE R0 ... R15
     LOOP      machine code in hexadecimal digits: the block, and at its end the decrement of the counter and the jump back
     VECTORS   0: XMM registers at most, 1: YMM, 2: ZMM and masks
     COUNTER   number of the register that counts the turns (in the order of encoding: rax rcx rdx rbx rsp rbp rsi rdi r8 ...)
     PATIENCE  seconds that the block may wait for a quiet core
     R0...     what the registers hold at the beginning
   A line of output: NUMBER ok RATE RATE RATE PAGES QUIET BUSY UNSTEADY, or NUMBER refused REASON DETAIL, or NUMBER busy ...

   Every page that the block touches is mapped, when it first does, onto one physical page, which is filled anew before
   every run with pointers into itself (WORD). Vectors hold 1.0f everywhere; denormal numbers count as zero; the bases of fs
   and gs are the page. Of the system's calls the child may only make those that its handler needs (seccomp). */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "clock.h"

#define ROOM (1ul << 16)   /* bytes of code */
#define PAGES 2000         /* that a block may touch */
#define SAMPLES 9          /* quiet ones for a figure */
#define ROUNDS 3
#define SHORT 4000.0       /* cycles of the shorter and of the longer loop whose difference counts */
#define LONG 20000.0
#define SECONDS 4          /* of processor time */

static uint64_t regs[16] __attribute__((used)), own_stack __attribute__((used)), vectors __attribute__((used));
static void *target __attribute__((used));
static float ones[16] __attribute__((aligned(64), used)) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static uint32_t fast __attribute__((used)) = 0x9fc0, plain __attribute__((used)) = 0x1f80; /* MXCSR: FTZ, DAZ, no traps */
void enter(void);
void leave_block(void);
__asm__(
    "enter:\n push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n mov %rsp, own_stack(%rip)\n"
    " fninit\n ldmxcsr fast(%rip)\n cmpq $1, vectors(%rip)\n ja 3f\n je 2f\n"
    " .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n movaps ones(%rip), %xmm\\n\n .endr\n jmp 4f\n"
    "2: .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vmovaps ones(%rip), %ymm\\n\n .endr\n jmp 4f\n"
    "3: .irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
    " vmovaps ones(%rip), %zmm\\n\n .endr\n"
    " .irp n,1,2,3,4,5,6,7\n kxnorw %k\\n,%k\\n,%k\\n\n .endr\n"
    "4: mov regs(%rip),%rax\n mov regs+8(%rip),%rcx\n mov regs+16(%rip),%rdx\n mov regs+24(%rip),%rbx\n"
    " mov regs+40(%rip),%rbp\n mov regs+48(%rip),%rsi\n mov regs+56(%rip),%rdi\n mov regs+64(%rip),%r8\n"
    " mov regs+72(%rip),%r9\n mov regs+80(%rip),%r10\n mov regs+88(%rip),%r11\n mov regs+96(%rip),%r12\n"
    " mov regs+104(%rip),%r13\n mov regs+112(%rip),%r14\n mov regs+120(%rip),%r15\n mov regs+32(%rip),%rsp\n"
    " jmp *target(%rip)\n"
    "leave_block: mov own_stack(%rip),%rsp\n pushq $2\n popfq\n fninit\n cmpq $0, vectors(%rip)\n je 5f\n vzeroupper\n"
    "5: ldmxcsr plain(%rip)\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

static pk_clock watch;
static int memory, pages, faults, counter;
static long number, quiet, busy, unsteady;
static uint64_t *home;
static double until;
static volatile uint64_t thread; /* the child's own base of fs, while the block's is set */

static long call(long which, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long found;
    __asm__ volatile("syscall" : "=a"(found) : "a"(which), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return found;
}
static void thread_base(uint64_t base) { call(SYS_arch_prctl, 0x1002, (long)base, 0, 0, 0, 0); }
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void end(const char *text, int length) {
    call(SYS_write, 1, (long)text, length, 0, 0, 0);
    call(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}
static void say(const char *what, const char *why, unsigned long detail) {
    char text[200];
    if (thread) thread_base(thread);
    end(text, snprintf(text, sizeof text, "%ld %s %s %lx %ld %ld %ld\n", number, what, why, detail, quiet, busy, unsteady));
}

static void on_signal(int signal, siginfo_t *about, void *context) {
    const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint64_t pc = (uint64_t)r[REG_RIP] - CODE;
    if (signal == SIGSEGV && about->si_code > 0 && about->si_code != SI_KERNEL) {
        uint64_t page = (uint64_t)about->si_addr & ~4095ul;
        if (page - CODE < ROOM) say("refused", "writes-code", pc);
        if (++pages > PAGES) say("refused", "many-pages", pc);
        long got = call(SYS_mmap, (long)page, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, memory, 0);
        if (got != (long)page) say("refused", page < 65536 ? "null" : "unmappable", pc);
        faults++;
        return;
    }
    say("refused",
        signal == SIGFPE    ? "division"
        : signal == SIGILL  ? "illegal"
        : signal == SIGSEGV ? "general-protection"
        : signal == SIGBUS  ? "bus"
        : signal == SIGXCPU ? "time"
                            : "trap",
        pc);
}

/* Run the loop for so many turns, from the same beginning every time; return ticks. */
static uint64_t run(long turns) {
    for (int k = 0; k < 512; k++) home[k] = WORD;
    regs[counter] = (uint64_t)turns;
    thread_base(PAGE);
    uint64_t from = pk_clock_begin();
    enter();
    uint64_t ticks = pk_clock_end() - from - watch.overhead;
    thread_base(thread);
    return ticks;
}
/* Map all that so many turns touch. */
static void settle(long turns) {
    for (int k = 0; k < 50; k++) {
        faults = 0;
        run(turns);
        if (!faults) return;
    }
    say("refused", "new-pages", (unsigned long)turns);
}
/* Cycles of so many turns: a low quantile of samples on a quiet core. */
static double cycles(long turns, int wanted) {
    double kept[SAMPLES];
    int k = 0;
    while (k < wanted) {
        pk_reading before, after;
        double found;
        pk_clock_before(&watch, &before);
        double rate = (double)before.chain / (PK_CHAIN * watch.link);
        int verdict = PK_BUSY;
        if ((double)before.turns <= PK_AWAKE * rate * PK_TURNS) {
            uint64_t ticks = run(turns);
            pk_clock_after(&watch, &after);
            verdict = pk_clock_judge(&watch, &before, &after, ticks, &found);
        }
        quiet += verdict == PK_QUIET;
        busy += verdict == PK_BUSY;
        unsteady += verdict == PK_UNSTEADY;
        if (verdict == PK_QUIET) kept[k++] = found;
        if (k < wanted && now() > until) say("busy", busy > unsteady ? "neighbour" : "clock", 0);
    }
    qsort(kept, (size_t)k, sizeof *kept, pk_clock_by_value);
    return kept[k / 5];
}

static int confined(void) {
    static const int allowed[] = {SYS_write, SYS_mmap, SYS_rt_sigreturn, SYS_exit_group, SYS_arch_prctl, SYS_clock_gettime};
    enum { N = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[N + 4] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    for (int k = 0; k < N; k++)
        filter[1 + k] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)allowed[k], (unsigned char)(N - k), 0);
    filter[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    filter[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {N + 3, filter};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void child(const char *hex, double patience, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    stack_t stack = {.ss_size = 1 << 16};
    stack.ss_sp = mmap(0, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaltstack(&stack, 0);
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGXCPU};
    for (int k = 0; k < 6; k++) sigaction(signals[k], &action, 0);
    struct rlimit limit = {(rlim_t)(SECONDS + patience), (rlim_t)(SECONDS + patience) + 2}, none = {0, 0};
    setrlimit(RLIMIT_CPU, &limit);
    setrlimit(RLIMIT_CORE, &none);
    memory = memfd_create("page", 0);
    if (memory < 0 || ftruncate(memory, 4096)) say("refused", "no-memory", 0);
    home = mmap((void *)PAGE, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_POPULATE, memory, 0);
    uint8_t *code = mmap((void *)CODE, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (code != (void *)CODE || home != (void *)PAGE) say("refused", "no-memory", 1);
    size_t length = 0;
    for (; hex[2 * length]; length++) {
        unsigned byte;
        if (length + 14 > ROOM || sscanf(hex + 2 * length, "%2x", &byte) != 1) say("refused", "long", length);
        code[length] = (uint8_t)byte;
    }
    static const uint8_t jump[6] = {0xff, 0x25}; /* to the address that follows */
    void *back = (void *)leave_block;
    memcpy(code + length, jump, 6);
    memcpy(code + length + 6, &back, 8);
    if (mprotect(code, ROOM, PROT_READ | PROT_EXEC)) say("refused", "no-memory", 2);
    target = code;
    uint64_t mine = 0;
    call(SYS_arch_prctl, 0x1003, (long)&mine, 0, 0, 0, 0);
    thread = mine;
    call(SYS_arch_prctl, 0x1001, PAGE, 0, 0, 0, 0); /* gs */
    now();
    if (!confined()) say("refused", "no-seccomp", (unsigned long)errno);
    until = now() + patience;
    settle(30);
    settle(30);
    double per = fmax((cycles(60, 5) - cycles(30, 5)) / 30, 0.25);
    long first = (long)fmax(20, SHORT / per), last = first + (long)fmax(40, (LONG - SHORT) / per);
    settle(last);
    int touched = pages;
    double rate[ROUNDS];
    for (int k = 0; k < ROUNDS; k++) {
        double one = cycles(first, SAMPLES);
        rate[k] = (cycles(last, SAMPLES) - one) / (double)(last - first);
    }
    if (pages != touched) say("refused", "new-pages", (unsigned long)last);
    char text[200];
    end(text, snprintf(text, sizeof text, "%ld ok %.5f %.5f %.5f %d %ld %ld %ld\n", number, rate[0], rate[1], rate[2], touched + 1, quiet, busy, unsteady));
}

int main(int argc, char **argv) {
    static char line[3 * ROOM], hex[2 * ROOM + 1];
    if (argc != 3) return 2;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[1]), &set);
    sched_setaffinity(0, sizeof set, &set);
    setvbuf(stdout, 0, _IONBF, 0);
    double last = now() + atof(argv[2]);
    do pk_clock_start(&watch);
    while (!(watch.link && watch.quiet_width > 0) && now() < last);
    if (!watch.link || !(watch.quiet_width > 0)) return 3;
    pid_t self = getpid();
    while (fgets(line, sizeof line, stdin)) {
        double patience;
        int at = 0;
        if (sscanf(line, "%ld %131072s %lu %d %lf%n", &number, hex, &vectors, &counter, &patience, &at) != 5) return 2;
        for (int k = 0, more = 0; k < 16; k++, at += more)
            if (sscanf(line + at, "%lu%n", &regs[k], &more) != 1) return 2;
        pid_t one = fork();
        if (one < 0) return 4;
        if (!one) child(hex, patience, self);
        int status;
        waitpid(one, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            printf("%ld refused crash %x %d %d %d\n", number, WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0, 0, 0);
    }
    return 0;
}
