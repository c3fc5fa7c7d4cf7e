/* A QEMU plugin (interface version 1: QEMU 6.0 to 8.1) that records one function's blocks and memory accesses.
   Arguments: lo=, hi= (the function's addresses in the file), text= (address of the lowest executable segment in the
   file), callees=0/1, first=, last= (calls, from 1), limit= (instructions), out= (prefix of the three output files).
   Debian ships no header for plugins, so the few functions used are declared here. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

typedef uint64_t plugin_id;
typedef uint32_t meminfo;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct info { const char *target; struct { int least, current; } version; bool system; };
enum { NO_REGISTERS };
enum { READ_AND_WRITE = 3 };
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, meminfo, uint64_t, void *), int,
                                             int, void *);
extern void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);
extern char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *);
extern const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *);
extern uint64_t qemu_plugin_start_code(void);
extern unsigned qemu_plugin_mem_size_shift(meminfo);
extern bool qemu_plugin_mem_is_store(meminfo);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

enum { LONGEST = 15, PAGE = 4096 };
struct block { uint64_t start, end; uint32_t id, length; bool region; uint32_t slack; }; /* it ends up to slack later */
struct execution { uint32_t block, unused; uint64_t events; };  /* events recorded before it */
struct event { uint64_t address; uint16_t instruction, size; uint32_t store; };

static uint64_t lo, hi, text, limit = -1, first = 1, last = 1;
static int callees;
static bool placed, active, done, was_inside, is_x86;
static uint64_t bias, calls, executed, events, back, previous_end;
static uint32_t blocks, back_slack, previous_slack;
static FILE *code, *stream, *memory;
static struct event pending;
static bool has_pending;

static void flush_event(void) {
    if (has_pending) {
        fwrite(&pending, sizeof pending, 1, memory);
        events++;
        has_pending = false;
    }
}

/* Code that the region called and that is not recorded; the last entry counts what the others have no room for. */
enum { PLACES = 128 };
static struct { uint64_t start, count; } left[PLACES + 1];

static void count_left(uint64_t start) {
    int k = 0;
    while (k < PLACES && left[k].count && left[k].start != start) k++;
    if (k < PLACES) left[k].start = start;
    left[k].count++;
}

static void finish(void) {
    if (done) return;
    done = true;
    flush_event();
    for (int k = 0; k <= PLACES; k++)
        if (left[k].count) fprintf(code, "O %lu %lu\n", (unsigned long)left[k].start, (unsigned long)left[k].count);
    fprintf(code, "E %lu %lu\n", (unsigned long)calls, (unsigned long)executed);
    fclose(code);
    fclose(stream);
    fclose(memory);
}

static bool returns_to(uint64_t start) { return start - back <= back_slack; }

static void on_block(unsigned cpu, void *data) {
    const struct block *b = data;
    if (done) return;
    bool loops = was_inside; /* a jump back to the function's first instruction is no call */
    was_inside = b->region;
    if (active && !callees && loops && !b->region && !returns_to(b->start)) count_left(b->start);
    if (b->start == lo + bias && !loops && !(callees && active)) {
        calls++;
        active = first <= calls && calls <= last;
        back = previous_end;
        back_slack = previous_slack;
        if (calls > last) { finish(); _exit(0); }
    } else if (callees && active && returns_to(b->start)) {
        active = false;
    }
    previous_end = b->end;
    previous_slack = b->slack;
    if (!active || !(b->region || callees)) return;
    flush_event();
    struct execution e = {b->id, 0, events};
    fwrite(&e, sizeof e, 1, stream);
    executed += b->length;
    if (executed > limit) { finish(); _exit(0); }
}

/* Wide accesses arrive in pieces: neighbours of one instruction become one. */
static void on_access(unsigned cpu, meminfo info, uint64_t address, void *data) {
    if (!active || done) return;
    uint16_t instruction = (uintptr_t)data;
    uint16_t size = 1u << qemu_plugin_mem_size_shift(info);
    uint32_t store = qemu_plugin_mem_is_store(info);
    if (has_pending && pending.instruction == instruction && pending.store == store &&
        pending.address + pending.size == address && pending.size + size <= 64) {
        pending.size += size;
        return;
    }
    flush_event();
    pending = (struct event){address, instruction, size, store};
    has_pending = true;
}

/* QEMU 7.2 does not show the bytes of an operand that lies in two pages. Return how many bytes there are in memory where
   an instruction of x86-64 may do so, too many of them: the reader knows where it ends. 0 elsewhere. */
static size_t crossing(const struct qemu_plugin_insn *i, unsigned char *bytes) {
    size_t size = qemu_plugin_insn_size(i);
    void *here = qemu_plugin_insn_haddr(i);
    uint64_t at = qemu_plugin_insn_vaddr(i) % PAGE;
    if (!is_x86 || !here || at + LONGEST <= PAGE || at + size > PAGE) return 0;
    size_t first = PAGE - at;
    struct iovec to = {bytes, LONGEST}, from[2] = {{here, first}, {(char *)here + first, LONGEST - first}};
    ssize_t n = process_vm_readv(getpid(), &to, 1, from, 2, 0); /* the next page may not be there */
    return n > (ssize_t)size && !memcmp(bytes, qemu_plugin_insn_data(i), size) ? n : 0;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *tb) {
    if (!placed) { bias = qemu_plugin_start_code() - text; placed = true; }
    size_t n = qemu_plugin_tb_n_insns(tb);
    struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(tb, 0), *end = qemu_plugin_tb_get_insn(tb, n - 1);
    uint64_t start = qemu_plugin_insn_vaddr(one);
    bool region = lo + bias <= start && start < hi + bias;
    if (done) return;
    struct block *b = malloc(sizeof *b);
    uint64_t last_at = qemu_plugin_insn_vaddr(end);
    unsigned char bytes[LONGEST];
    uint32_t slack = crossing(end, bytes) ? LONGEST - qemu_plugin_insn_size(end) : 0;
    *b = (struct block){start, last_at + qemu_plugin_insn_size(end), blocks, n, region, slack};
    qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, NO_REGISTERS, b);
    if (!region && !callees) return; /* only its running matters */
    blocks++;
    fprintf(code, "B %u %zu %lu\n", b->id, n, (unsigned long)bias);
    for (size_t k = 0; k < n; k++) {
        struct qemu_plugin_insn *i = qemu_plugin_tb_get_insn(tb, k);
        size_t more = crossing(i, bytes), size = more ? more : qemu_plugin_insn_size(i);
        const unsigned char *shown = more ? bytes : qemu_plugin_insn_data(i);
        char *words = qemu_plugin_insn_disas(i);
        const char *symbol = qemu_plugin_insn_symbol(i);
        fprintf(code, "I %lu ", (unsigned long)qemu_plugin_insn_vaddr(i));
        for (size_t j = 0; j < size; j++) fprintf(code, "%02x", shown[j]);
        fprintf(code, " %s %s\n", symbol && *symbol ? symbol : "?", words ? words : "");
        free(words);
        qemu_plugin_register_vcpu_mem_cb(i, on_access, NO_REGISTERS, READ_AND_WRITE, (void *)(uintptr_t)k);
    }
}

static void at_exit(plugin_id id, void *data) { finish(); }

static FILE *opened(const char *prefix, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s", prefix, name);
    FILE *file = fopen(path, "wb");
    if (file) setvbuf(file, NULL, _IOFBF, 1 << 20);
    return file;
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const struct info *info, int argc,
                                                               char **argv) {
    const char *out = "trace.";
    is_x86 = !strcmp(info->target, "x86_64");
    for (int k = 0; k < argc; k++) {
        char *value = strchr(argv[k], '=');
        if (!value) return 1;
        *value++ = 0;
        uint64_t number = strtoull(value, NULL, 0);
        if (!strcmp(argv[k], "lo")) lo = number;
        else if (!strcmp(argv[k], "hi")) hi = number;
        else if (!strcmp(argv[k], "text")) text = number;
        else if (!strcmp(argv[k], "limit")) limit = number;
        else if (!strcmp(argv[k], "first")) first = number;
        else if (!strcmp(argv[k], "last")) last = number;
        else if (!strcmp(argv[k], "callees")) callees = number;
        else if (!strcmp(argv[k], "out")) out = value;
        else return 1;
    }
    code = opened(out, "code");
    stream = opened(out, "stream");
    memory = opened(out, "memory");
    if (!code || !stream || !memory) return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, at_exit, NULL);
    return 0;
}
