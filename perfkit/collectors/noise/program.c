/* Stop a program where it calls a function, and run copies of that function in processes forked from it (x86-64).

   A function's entry jumps to perfkit_hook, which counts calls, keeps all registers at the one that is wanted, and calls
   back. Copies then run in forked processes only: on the program's own stack and memory, of which each process has its
   own, and without any system call that could reach files, other processes or devices. */
#include "timer.c"
#include <errno.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

/* What the function met: general registers by number, and the vector registers, 64 bytes each. */
typedef struct { uint64_t general[16]; uint8_t vectors[16][64]; } registers;
registers perfkit_state __attribute__((aligned(64), visibility("default")));
long perfkit_until __attribute__((visibility("default"))) = 1;      /* calls up to the wanted one */
void (*perfkit_plain)(void) __attribute__((visibility("default")));  /* where other calls go on */
void (*perfkit_back)(void) __attribute__((visibility("default")));   /* never returns */
long perfkit_width __attribute__((visibility("default"))) = 16;     /* bytes of this processor's vector registers */

#define EACH(do) do(0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(14) do(15)
#define KEEP(name, move, kind) name ":\n\t" EACH(move##kind) "ret\n\t"
#define MOVE_X(k) "movups %xmm" #k ", 64*" #k "(%r11)\n\t"
#define MOVE_Y(k) "vmovups %ymm" #k ", 64*" #k "(%r11)\n\t"
#define MOVE_Z(k) "vmovups %zmm" #k ", 64*" #k "(%r11)\n\t"
/* r11 and the flags are free at a function's entry. */
__asm__(".text\n\t.globl perfkit_hook\n\t.type perfkit_hook, @function\n"
        "perfkit_hook:\n\t"
        "mov perfkit_until@GOTPCREL(%rip), %r11\n\tlock decq (%r11)\n\tjz 1f\n\t"
        "mov perfkit_plain@GOTPCREL(%rip), %r11\n\tjmp *(%r11)\n"
        "1:\n\tmov perfkit_state@GOTPCREL(%rip), %r11\n\t"
        "mov %rax, 0(%r11)\n\tmov %rcx, 8(%r11)\n\tmov %rdx, 16(%r11)\n\tmov %rbx, 24(%r11)\n\tmov %rsp, 32(%r11)\n\t"
        "mov %rbp, 40(%r11)\n\tmov %rsi, 48(%r11)\n\tmov %rdi, 56(%r11)\n\tmov %r8, 64(%r11)\n\tmov %r9, 72(%r11)\n\t"
        "mov %r10, 80(%r11)\n\tmov %r12, 96(%r11)\n\tmov %r13, 104(%r11)\n\tmov %r14, 112(%r11)\n\t"
        "mov %r15, 120(%r11)\n\tand $-64, %rsp\n\tadd $128, %r11\n\t"
        "mov perfkit_width@GOTPCREL(%rip), %rax\n\tmov (%rax), %rax\n\t"
        "cmp $32, %rax\n\tje 3f\n\tja 4f\n\t" EACH(MOVE_X) "jmp 5f\n"
        "3:\n\t" EACH(MOVE_Y) "vzeroupper\n\tjmp 5f\n"
        "4:\n\t" EACH(MOVE_Z) "vzeroupper\n"
        "5:\n\tcld\n\tmov perfkit_back@GOTPCREL(%rip), %rax\n\tcall *(%rax)\n\tud2\n\t"
        ".size perfkit_hook, .-perfkit_hook\n");

/* What a forked process is told and tells: in memory that both see. */
typedef struct { volatile long done, forbidden; } note;
static note *own_note;
typedef struct { void *at, *kept; long size; } piece;
static const piece *pieces;
static long piece_count;

static void bring_back(void) {
    for (long k = 0; k < piece_count; k++) memcpy(pieces[k].at, pieces[k].kept, (size_t)pieces[k].size);
}

static void forbidden(int number, siginfo_t *about, void *context) {
    (void)number, (void)context;
    own_note->forbidden = 1 + about->si_syscall;
    syscall(SYS_exit_group, 1);
}

/* Memory and clocks are all that a call may ask the system for. */
static int guard(void) {
    static const int allowed[] = {SYS_brk, SYS_munmap, SYS_mremap, SYS_madvise, SYS_mprotect, SYS_clock_gettime,
                                  SYS_gettimeofday, SYS_time, SYS_getpid, SYS_gettid, SYS_rt_sigprocmask,
                                  SYS_rt_sigreturn, SYS_pause, SYS_exit_group, SYS_sched_yield};
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter code[COUNT + 12];
    int n = 0, last = COUNT + 10;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, (uint8_t)(last - n - 1)), n++;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int k = 0; k < COUNT; k++, n++)
        code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)allowed[k],
                                               (uint8_t)(last + 1 - n - 1), 0);
    /* mmap of no file, and of nothing that other processes see */
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, (uint8_t)(last - n - 1)), n++;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3]));
    code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, MAP_ANONYMOUS | MAP_SHARED);
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAP_ANONYMOUS, (uint8_t)(last + 1 - n - 1), 0), n++;
    while (n < last) code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sigaction action = {.sa_sigaction = forbidden, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &action, NULL);
    struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    /* Without SPEC_ALLOW some kernels switch off the forwarding of stores. */
    if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program)) return 0;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) ? errno : 0;
}

static void quit(int status) {
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

static void (*work)(void);
static void on_own_stack(void) {
    work();
    quit(0);
}

/* Fork; the child does some work on a stack of its own, as the program's is for the function. The bare system call: the
   C library would write down the new process's number, and call what the program wants called. */
static long apart(void (*what)(void), note *told, char *stack, long size) {
    long parent = getpid(), child = syscall(SYS_fork);
    if (child) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (syscall(SYS_getppid) != parent) quit(1);
    own_note = told;
    work = what;
    int failed = guard();
    if (failed) {
        told->forbidden = -failed;
        quit(1);
    }
    static ucontext_t there;
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = (size_t)size;
    makecontext(&there, on_own_stack, 0);
    setcontext(&there);
    quit(1);
    return -1;
}

/* Wait until a child says that it is done, or ends; 0: done, 1: ended or too late (it is ended then). */
static int wait_for(long child, note *told, double seconds) {
    struct timespec now, pause = {0, 200000};
    clock_gettime(CLOCK_MONOTONIC, &now);
    double until = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + seconds;
    for (;;) {
        if (told->done) return 0;
        if (waitpid((pid_t)child, NULL, WNOHANG) == child) return !told->done;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec > until) {
            kill((pid_t)child, SIGKILL);
            waitpid((pid_t)child, NULL, 0);
            told->forbidden = LONG_MIN;
            return 1;
        }
        nanosleep(&pause, NULL);
    }
}

static function once;
static long times;
static void some_calls(void) {
    for (long k = 0; k < times; k++) once(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    own_note->done = 1;
    for (;;) syscall(SYS_pause);
}

/* Call each function so often in a process of its own, all forked from the same state, and leave these waiting. */
void perfkit_each(long count, const function *f, const long *calls, note *notes, long *children, char *stack, long size,
                  double seconds) {
    for (long k = 0; k < count; k++) {
        once = f[k], times = calls[k];
        children[k] = apart(some_calls, notes + k, stack, size);
        if (wait_for(children[k], notes + k, seconds)) children[k] = 0;
    }
    once = 0, times = 0;
}

static struct { const function *f; long calls, turns; const uint32_t *which; uint64_t (*out)[9]; } task;
static void in_turns(void) {
    static const long integers[6];
    static const double floats[8];
    for (long k = 0; k < piece_count; k++) memcpy(pieces[k].kept, pieces[k].at, (size_t)pieces[k].size);
    perfkit_turns(task.f, integers, floats, task.calls, task.turns, task.which, task.out, piece_count ? bring_back : NULL);
    own_note->done = 1;
}

/* perfkit_turns in a process of its own; before each sample the given pieces of memory are brought back. */
int perfkit_turns_apart(const function *f, long calls, long turns, const uint32_t *which, uint64_t (*out)[9], note *told,
                        char *stack, long size, const piece *changed, long changes, double seconds) {
    task.f = f, task.calls = calls, task.turns = turns, task.which = which, task.out = out;
    pieces = changed, piece_count = changes;
    int ends[2];
    if (pipe(ends)) return 1;
    long child = apart(in_turns, told, stack, size);
    close(ends[1]); /* the child holds the other one as long as it lives: no look at it disturbs its timing */
    struct pollfd end = {ends[0], POLLIN, 0};
    if (poll(&end, 1, (int)(1000 * seconds)) <= 0) {
        told->forbidden = LONG_MIN;
        kill((pid_t)child, SIGKILL);
    }
    waitpid((pid_t)child, NULL, 0);
    close(ends[0]);
    return !told->done;
}
