/* The oracle: run FUNCTION of LIBRARY one instruction at a time and write the registers before each.
   stepper LIBRARY FUNCTION OUTPUT MOST STACK RANGES... VECTORS: STACK is the stack pointer's lower bits, RANGES are pairs "start end" or "all all", and "-" ends them; VECTORS are
   addresses at which the vector and mask registers are wanted, too. All addresses are relative to the load address. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared { uint64_t base, function; };

static unsigned offset_of(unsigned component) {
    unsigned a, b, c, d;
    __cpuid_count(0xd, component, a, b, c, d);
    return b;
}

int main(int argc, char **argv) {
    struct shared *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        void *library = dlopen(argv[1], RTLD_NOW);
        if (!library) { fprintf(stderr, "%s\n", dlerror()); _exit(3); }
        void (*setup)(void) = (void (*)(void))dlsym(library, "setup");
        void (*function)(void) = (void (*)(void))dlsym(library, argv[2]);
        if (setup) setup();
        shared->base = ((struct link_map *)library)->l_addr;
        shared->function = (uint64_t)function;
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        /* The same alignment of the stack as in the trace: code that aligns its frame depends on it. */
        uint64_t stack = (((uint64_t)__builtin_frame_address(0) & ~4095ul) - 8192) + strtoull(argv[5], 0, 0) % 4096 + 8;
        __asm__ volatile("mov %0, %%rsp\n\tcall *%1\n\tmov $60, %%eax\n\txor %%edi, %%edi\n\tsyscall" ::"r"(stack), "r"(function));
    }
    int status;
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status)) return 4;
    uint64_t ranges[64][2], vectors[256];
    int n_ranges = 0, n_vectors = 0, arg = 6;
    for (; arg < argc && strcmp(argv[arg], "-"); arg += 2, n_ranges++) {
        if (!strcmp(argv[arg], "all")) {
            ranges[n_ranges][0] = 0, ranges[n_ranges][1] = -1;
            continue;
        }
        ranges[n_ranges][0] = shared->base + strtoull(argv[arg], 0, 0);
        ranges[n_ranges][1] = shared->base + strtoull(argv[arg + 1], 0, 0);
    }
    for (arg++; arg < argc; arg++) vectors[n_vectors++] = shared->base + strtoull(argv[arg], 0, 0);
    FILE *out = fopen(argv[3], "wb");
    fwrite(shared, sizeof *shared, 1, out);
    unsigned ymm = offset_of(2), opmask = offset_of(5), zmm_high = offset_of(6), high16 = offset_of(7);
    static uint8_t area[16384];
    int inside = 0;
    uint64_t entry_rsp = 0, back = 0;
    long most = atol(argv[4]), steps = 0;
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0)) return 5;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) || WIFSIGNALED(status)) return 6;
        struct user_regs_struct r;
        ptrace(PTRACE_GETREGS, child, 0, &r);
        if (!inside) {
            if (r.rip != shared->function) continue;
            inside = 1;
            entry_rsp = r.rsp;
            back = ptrace(PTRACE_PEEKDATA, child, r.rsp, 0);
        }
        if (r.rip == back && r.rsp > entry_rsp) break;
        int wanted = 0;
        for (int k = 0; k < n_ranges; k++) wanted |= ranges[k][0] <= r.rip && r.rip < ranges[k][1];
        if (!wanted) continue;
        if (steps++ == most) break;
        uint64_t row[19] = {r.rip, r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8,
                            r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.fs_base, 0};
        for (int k = 0; k < n_vectors; k++) row[18] |= vectors[k] == r.rip;
        fwrite(row, sizeof row, 1, out);
        if (row[18]) {
            struct iovec io = {area, sizeof area};
            ptrace(PTRACE_GETREGSET, child, NT_X86_XSTATE, &io);
            uint8_t z[32][64];
            memset(z, 0, sizeof z);
            for (int k = 0; k < 16; k++) {
                memcpy(z[k], area + 160 + 16 * k, 16);
                memcpy(z[k] + 16, area + ymm + 16 * k, 16);
                if (zmm_high) memcpy(z[k] + 32, area + zmm_high + 32 * k, 32);
                if (high16) memcpy(z[16 + k], area + high16 + 64 * k, 64);
            }
            fwrite(z, sizeof z, 1, out);
            uint64_t masks[8] = {0};
            if (opmask) memcpy(masks, area + opmask, 64);
            fwrite(masks, sizeof masks, 1, out);
        }
    }
    struct user_regs_struct last;
    ptrace(PTRACE_GETREGS, child, 0, &last);
    uint64_t end[19] = {0, last.rax, last.rcx, last.rdx, last.rbx, last.rsp, last.rbp, last.rsi, last.rdi};
    fwrite(end, sizeof end, 1, out);
    fclose(out);
    kill(child, SIGKILL);
    return 0;
}
