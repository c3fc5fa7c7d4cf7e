/* Finds out, by execution, which registers an instruction reads and writes: it runs with random registers, then with one
   of them changed at a time. `table`, `count` and `bases` come with the instructions (test_decode_aarch64.py). */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
struct state { uint64_t x[31], flags; uint64_t v[32][2]; };
enum { TRIALS = 24, INTEGERS = 8, VECTORS = 8, FLAGS = 64 };
extern void (*const table[])(const struct state *, struct state *);
extern const long count;
extern const unsigned char bases[][2]; /* base and index register of each instruction, 255 for none */
static uint64_t seed = 88172645463325252ull;
static unsigned char memory[4096], before[4096], expected[4096];
static uint64_t next(void) { seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17; return seed; }
/* Two single or one double precision number of either sign, from 1 to 65536. */
static uint64_t fraction(void) {
    uint64_t bits = next();
    if (bits & 1) return (bits & 0x87ffffff87ffffffull) + 0x3f8000003f800000ull;
    return (bits & 0x80ffffffffffffffull) + 0x3ff0000000000000ull;
}
static void fill(struct state *s, long k) {
    for (int r = 0; r < 31; r++) s->x[r] = next();
    for (int r = 0; r < 32; r++) s->v[r][0] = fraction(), s->v[r][1] = fraction();
    s->flags = (next() & 15) << 28;
    if (bases[k][0] < 31) s->x[bases[k][0]] = (uint64_t)memory + 1024;
    if (bases[k][1] < 31) s->x[bases[k][1]] = 16 + (next() & 7) * 8;
}
static void change(struct state *s, int r, long k) {
    if (r == FLAGS) s->flags ^= ((next() & 15) + 1) << 28 & 0xf0000000;
    else if (r >= 32) s->v[r - 32][0] = fraction(), s->v[r - 32][1] = fraction();
    else if (r == bases[k][0]) s->x[r] += 8 + (next() & 7) * 8;
    else if (r == bases[k][1]) s->x[r] += 8 + (next() & 7) * 8;
    else s->x[r] = next();
}
static int differ(const struct state *a, const struct state *b, int r) {
    if (r == FLAGS) return a->flags != b->flags;
    return r >= 32 ? memcmp(a->v[r - 32], b->v[r - 32], 16) != 0 : a->x[r] != b->x[r];
}
int main(void) {
    int all[INTEGERS + VECTORS + 1], n = 0;
    for (int r = 0; r < INTEGERS; r++) all[n++] = r;
    for (int r = 0; r < VECTORS; r++) all[n++] = 32 + r;
    all[n++] = FLAGS;
    for (long k = 0; k < count; k++) {
        char reads[65] = {0}, writes[65] = {0};
        for (int trial = 0; trial < TRIALS; trial++) {
            struct state in, out, in2, out2;
            fill(&in, k);
            for (int i = 0; i < 4096; i++) before[i] = next();
            memcpy(memory, before, 4096);
            table[k](&in, &out);
            memcpy(expected, memory, 4096);
            for (int i = 0; i < n; i++) if (differ(&in, &out, all[i])) writes[all[i]] = 1;
            for (int i = 0; i < n; i++) {
                in2 = in;
                change(&in2, all[i], k);
                memcpy(memory, before, 4096);
                table[k](&in2, &out2);
                if (memcmp(memory, expected, 4096)) reads[all[i]] = 1;
                for (int j = 0; j < n; j++) {
                    if (j != i && differ(&out, &out2, all[j])) reads[all[i]] = 1;
                    if (differ(&in2, &out2, all[j])) writes[all[j]] = 1;
                }
                /* A register that is written and still depends on its old value is read. */
                if (writes[all[i]] && differ(&out, &out2, all[i])) reads[all[i]] = 1;
            }
        }
        printf("%ld", k);
        for (int i = 0; i < n; i++) if (reads[all[i]]) printf(" r%d", all[i]);
        for (int i = 0; i < n; i++) if (writes[all[i]]) printf(" w%d", all[i]);
        puts("");
    }
    return 0;
}
