/* What every kernel of the corpus needs. A kernel file defines setup(), which fills the arrays, and one function marked
   KERNEL, the region of interest: without arguments, on arrays of the file, so that every run touches the same data. */
#pragma once
#define EXPORT __attribute__((visibility("default")))
/* noipa: the compiler neither inlines, clones nor specialises the region, so its symbol stays. */
#if defined(__clang__)
#define KERNEL EXPORT __attribute__((noinline))
#else
#define KERNEL EXPORT __attribute__((noipa))
#endif
#define ALIGNED __attribute__((aligned(64)))
/* The result, for checks: its address and its size in bytes. */
#define OUTPUT(array) EXPORT volatile void *output = (volatile void *)array; EXPORT long output_size = sizeof(array);
/* The compiler may assume nothing about the value: it must be computed, here, in a register. */
#define KEEP(x) __asm__ volatile("" : "+r"(x))
#if defined(__x86_64__)
#define KEEPX(x) __asm__ volatile("" : "+x"(x))
#elif defined(__aarch64__)
#define KEEPX(x) __asm__ volatile("" : "+w"(x))
#else
#define KEEPX(x) __asm__ volatile("" : "+f"(x))
#endif
/* The square root as one instruction, without errno. */
#define SQRT(x) __builtin_sqrt(x)

static unsigned long state = 1;
/* A number in [0, 1), the same sequence everywhere (Knuth's MMIX generator). */
static inline double next(void) {
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (state >> 11) * 0x1p-53;
}
/* Fill an array of doubles or of floats, of any dimension. */
#define FILL(array) fill((double *)(void *)(array), sizeof(array) / sizeof(double))
#define FILLF(array) fillf((float *)(void *)(array), sizeof(array) / sizeof(float))
static inline void fill(double *values, unsigned long count) {
    for (unsigned long i = 0; i < count; i++) values[i] = next();
}
static inline void fillf(float *values, unsigned long count) {
    for (unsigned long i = 0; i < count; i++) values[i] = (float)next();
}
