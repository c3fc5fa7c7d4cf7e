/* What QEMU is to the plugin: blocks that the input describes are translated and run, one line each.
   T block n, then n times "address bytes": translate; X block: run; M block instruction shift store address: access. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct insn {
    uint64_t at; size_t size; unsigned char bytes[16]; void *here;
    void (*access)(unsigned, unsigned, uint64_t, void *); void *data;
};
struct tb { size_t n; struct insn insns[8]; void (*run)(unsigned, void *); void *data; };
static struct tb tbs[256];
static void (*translate)(uint64_t, struct tb *), (*ends)(uint64_t, void *);
static char *pages; /* the first can be read, what is in it ends instructions of two pages; the second by choice */

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*f)(uint64_t, struct tb *)) { translate = f; }
void qemu_plugin_register_vcpu_tb_exec_cb(struct tb *tb, void (*f)(unsigned, void *), int flags, void *data) {
    tb->run = f;
    tb->data = data;
}
void qemu_plugin_register_vcpu_mem_cb(struct insn *i, void (*f)(unsigned, unsigned, uint64_t, void *), int flags, int rw,
                                      void *data) {
    if (rw != 3) exit(6); /* reads and writes */
    i->access = f;
    i->data = data;
}
void qemu_plugin_register_atexit_cb(uint64_t id, void (*f)(uint64_t, void *), void *data) { ends = f; }
size_t qemu_plugin_tb_n_insns(const struct tb *tb) { return tb->n; }
struct insn *qemu_plugin_tb_get_insn(struct tb *tb, size_t k) { return tb->insns + k; }
const void *qemu_plugin_insn_data(const struct insn *i) { return i->bytes; }
size_t qemu_plugin_insn_size(const struct insn *i) { return i->size; }
uint64_t qemu_plugin_insn_vaddr(const struct insn *i) { return i->at; }
void *qemu_plugin_insn_haddr(const struct insn *i) { return i->here; }
char *qemu_plugin_insn_disas(const struct insn *i) { return strdup("text"); }
const char *qemu_plugin_insn_symbol(const struct insn *i) { return i->at % 2 ? "" : "f"; }
uint64_t qemu_plugin_start_code(void) { return 0x5400; }
unsigned qemu_plugin_mem_size_shift(unsigned info) { return info >> 1; }
_Bool qemu_plugin_mem_is_store(unsigned info) { return info & 1; }

/* Arguments: the plugin, the target, how many pages can be read, and the plugin's own. */
int main(int argc, char **argv) {
    struct { const char *target; int versions[3]; } info = {argv[2], {0}};
    pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 0xee, 8192);
    if (atoi(argv[3]) < 2) munmap(pages + 4096, 4096);
    void *plugin = dlopen(argv[1], RTLD_LAZY);
    int (*install)(uint64_t, void *, int, char **) = plugin ? dlsym(plugin, "qemu_plugin_install") : NULL;
    if (!install || *(int *)dlsym(plugin, "qemu_plugin_version") != 1) return 9;
    if (install(1, &info, argc - 4, argv + 4)) return 8;
    char kind;
    unsigned k;
    while (scanf(" %c %u", &kind, &k) == 2) {
        struct tb *tb = tbs + k;
        if (kind == 'T') {
            char hex[40];
            if (scanf("%zu", &tb->n) != 1) return 7;
            for (struct insn *i = tb->insns; i < tb->insns + tb->n; i++) {
                if (scanf("%lx %39s", &i->at, hex) != 2) return 7;
                i->size = strlen(hex) / 2;
                for (size_t j = 0; j < i->size; j++) sscanf(hex + 2 * j, "%2hhx", i->bytes + j);
                i->here = pages + i->at % 4096;
                if (i->at % 4096 + i->size <= 4096 && i->bytes[0] != 0x0f) /* else what is there now is another one */
                    memcpy(i->here, i->bytes, i->size);
            }
            translate(1, tb);
        } else if (kind == 'X') {
            tb->run(0, tb->data);
        } else {
            unsigned i, shift, store;
            uint64_t address;
            if (scanf("%u %u %u %lx", &i, &shift, &store, &address) != 4) return 7;
            tb->insns[i].access(0, shift << 1 | store, address, tb->insns[i].data);
        }
    }
    ends(1, NULL);
    return 0;
}
