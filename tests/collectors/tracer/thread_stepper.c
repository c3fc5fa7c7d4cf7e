/* The oracle for threads: run PROGRAM from its main on, every thread one instruction at a time, and write for each thread
   that comes to a range the registers before each instruction there, as stepper.c does, to OUTPUT.NUMBER-OF-THREAD.
   thread_stepper PROGRAM OUTPUT MAIN RANGES...: the addresses are those of the file. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static struct { pid_t tid; FILE *out; } threads[128];
static int count;

static FILE *file_of(pid_t tid, const char *name, uint64_t base) {
    for (int k = 0; k < count; k++)
        if (threads[k].tid == tid) return threads[k].out;
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", name, tid);
    uint64_t head[2] = {base, 0};
    threads[count].tid = tid;
    threads[count].out = fopen(path, "wb");
    fwrite(head, sizeof head, 1, threads[count].out);
    return threads[count++].out;
}

int main(int argc, char **argv) {
    pid_t child = fork();
    if (child == 0) {
        personality(ADDR_NO_RANDOMIZE);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(argv[1], argv[1], (char *)0);
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/maps", child);
    FILE *maps = fopen(path, "r");
    uint64_t base;
    if (fscanf(maps, "%lx", &base) != 1) return 4;
    fclose(maps);
    uint64_t start = base + strtoull(argv[3], 0, 0);
    long code = ptrace(PTRACE_PEEKTEXT, child, start, 0);
    ptrace(PTRACE_POKETEXT, child, start, (code & ~0xffl) | 0xcc);
    ptrace(PTRACE_CONT, child, 0, 0);
    waitpid(child, &status, 0);
    ptrace(PTRACE_POKETEXT, child, start, code);
    struct user_regs_struct r;
    ptrace(PTRACE_GETREGS, child, 0, &r);
    r.rip = start;
    ptrace(PTRACE_SETREGS, child, 0, &r);
    ptrace(PTRACE_SINGLESTEP, child, 0, 0);
    for (;;) {
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0) break;
        if (WIFEXITED(status) || WIFSIGNALED(status)) continue;
        int signal = WSTOPSIG(status);
        /* A stop at a clone's end, or a new thread's first, is no instruction of the ranges. */
        if (signal == SIGTRAP && status >> 16 == 0) {
            signal = 0;
            ptrace(PTRACE_GETREGS, tid, 0, &r);
            for (int k = 4; k + 1 < argc; k += 2)
                if (base + strtoull(argv[k], 0, 0) <= r.rip && r.rip < base + strtoull(argv[k + 1], 0, 0)) {
                    uint64_t row[19] = {r.rip, r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8,
                                        r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.fs_base, 0};
                    fwrite(row, sizeof row, 1, file_of(tid, argv[2], base));
                }
        } else if (signal == SIGSTOP || signal == SIGTRAP) {
            signal = 0;
        }
        ptrace(PTRACE_SINGLESTEP, tid, 0, signal);
    }
    for (int k = 0; k < count; k++) fclose(threads[k].out);
    return 0;
}
