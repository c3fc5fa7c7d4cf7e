/* What marks take depends on what ends before them: on a Zen 5 a fence waits 4 to 7 cycles longer for a floating-point
   operation than for a sum. So chains of several kinds are timed as kernels and programs are; what they take beside their
   links is one kind's share, and between these lies that of whatever is measured. */
#define KNOWN 40        /* links */
#define MARGIN 2.0      /* cycles by which what marks take depends on the code around them */
#define KNOWN_STEPS 50  /* pairs of marks, or fences, in a window */
static void *itself = &itself;

/* A name, whether it is of plain integer code, what makes the operands (at no cost: zeros), a link. */
#define KINDS(X) \
    X(multiplications, 1, "", "imul %%eax, %%eax") \
    X(sums, 1, "", "add %%eax, %%eax") \
    X(loads, 1, "lea %[itself], %%rax", "mov (%%rax), %%rax") \
    X(float_sums, 0, "xorps %%xmm0, %%xmm0", "addss %%xmm0, %%xmm0") \
    X(float_products, 0, "xorps %%xmm0, %%xmm0", "mulss %%xmm0, %%xmm0") \
    X(quotients, 0, "xorps %%xmm0, %%xmm0", "divss %%xmm0, %%xmm0") \
    X(nothing, 1, "", "") /* the last: no chain, the least that marks can read */

typedef struct {
    int plain;
    void (*marked)(pk_context *), (*alone)(pk_context *), (*apart)(pk_context *), (*of_program)(void);
    uint64_t (*fenced)(int), (*links)(uint64_t);
} kind;

/* Another time before each, so that readings begin at every part of the counter's step. */
static inline void before_known(long turn) {
    uint64_t turns = (uint64_t)turn % 43 + 1;
    __asm__ volatile("1:\n\timul %%eax, %%eax\n\tdec %0\n\tjnz 1b" : "+r"(turns) : : "eax", "cc");
}
#define CHAIN(operands, link) \
    __asm__ volatile(operands "\n\t.rept 40\n\t" link "\n\t.endr" : : [itself] "m"(itself) : "rax", "xmm0", "cc", "memory")
#define FUNCTIONS(name, plain, operands, link) \
    static void marked_##name(pk_context *pk) { \
        for (long step = 0; step < pk->steps; step++) { \
            before_known(step); \
            PK_BEGIN; \
            CHAIN(operands, link); \
            PK_END; \
        } \
    } \
    static void alone_##name(pk_context *pk) { \
        (void)pk; \
        CHAIN(operands, link); \
    } \
    static void apart_##name(pk_context *pk) { \
        (void)pk; \
        CHAIN(operands, link); \
        __asm__ volatile("lfence" : : : "memory"); \
    } \
    static void program_##name(void) { \
        pk_start(); \
        CHAIN(operands, link); \
        pk_stop(); \
    } \
    static uint64_t fenced_##name(int turns) { \
        uint64_t begin = ticks_before(); \
        for (int turn = 0; turn < turns; turn++) { \
            CHAIN(operands, link); \
            __asm__ volatile("lfence" : : : "memory"); \
        } \
        return since(begin); \
    } \
    static uint64_t links_##name(uint64_t turns) { \
        uint64_t begin = ticks_before(); \
        __asm__ volatile(operands "\n\t.p2align 5\n1:\n\t.rept 40\n\t" link "\n\t.endr\n\tdec %0\n\tjnz 1b" \
                         : "+r"(turns) : [itself] "m"(itself) : "rax", "xmm0", "cc", "memory"); \
        return since(begin); \
    }
KINDS(FUNCTIONS)
#define ROW(name, plain, operands, link) {plain, marked_##name, alone_##name, apart_##name, program_##name, fenced_##name, links_##name},
static const kind kinds[] = {KINDS(ROW)};
enum { KINDS_KNOWN = sizeof kinds / sizeof *kinds, NOTHING = KINDS_KNOWN - 1 };

/* What reads the clock around what is measured, and for each kind of chain the cycles that it adds. A window of executions
   apart adds what APART does to one with its fence, and FENCE for each further one. */
enum { MARKS, WINDOW, APART, FENCE, PROGRAM, WAYS };
typedef struct {
    double beside[KINDS_KNOWN]; /* cycles; NaN: unknown */
    int found[KINDS_KNOWN];     /* beside no busy neighbour: else each request looks again */
    double ns;                  /* what a clock of wall time reads beside a chain of multiplications */
    int begun;
} way;
static LEARNT way ways[WAYS];

/* What is known of the code that is measured. */
enum { ANY_CODE, PLAIN_CODE, VECTOR_CODE };
static int code = ANY_CODE;

/* Of the kinds that the code may be: what is subtracted, and by how much the truth may lie below and above what is left.
   A chain whose end is of integers may be part of any code; only plain code never ends otherwise. */
typedef struct { double middle, below, above; int known; } bias;
static void widen(double *least, double *most, double value) {
    if (value < *least) *least = value;
    if (value > *most) *most = value;
}
static bias bias_of(int at) {
    const way *one = &ways[at];
    bias out = {.known = one->begun};
    double least = 1e9, most = -1e9, lowest = 1e9, highest = -1e9;
    if (!one->begun) return out;
    for (int k = 0; k < NOTHING; k++) {
        double beside = one->beside[k];
        out.known &= one->found[k];
        if (beside != beside) continue;
        if (code != PLAIN_CODE || kinds[k].plain) widen(&least, &most, beside);
        if (code == ANY_CODE || kinds[k].plain == (code == PLAIN_CODE)) widen(&lowest, &highest, beside);
    }
    out.known &= one->found[NOTHING];
    if (lowest > highest || least > most) return out;
    out.middle = (lowest + highest) / 2;
    out.below = most - out.middle, out.above = out.middle - least;
    return out;
}
