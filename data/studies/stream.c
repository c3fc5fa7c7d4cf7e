/* RQ3 of MARTA: c(f(i)) = a(g(i)) * b(h(i)) over blocks of eight doubles (its Fig. 9), every stream read or written in its
   own order. A mode for each stream: 0 sequential, 1 strided (the i-th of S traversals takes blocks i, i+S, i+2S, ...),
   2 a block drawn by rand(), as the paper does, 3 a block drawn from indices that were made before the clock started. */
#include <immintrin.h>

#define BLOCKS ((size_t)1 << BLOCKS_LOG2)
#define ELEMENTS (BLOCKS * 8)
#define ROUND (BLOCKS / STRIDE) /* blocks in a traversal: a power of two, so the order costs a mask and a shift */

static inline size_t PK_NAME(place)(int mode, const uint32_t *drawn, size_t i) {
    switch (mode) {
    case 1: return (i & (ROUND - 1)) * STRIDE + i / ROUND;
    case 2: return (size_t)rand() & (BLOCKS - 1);
    case 3: return drawn[i];
    default: return i;
    }
}

PK_SETUP {
    double *a = (double *)pk->memory;
    for (size_t i = 0; i < 3 * ELEMENTS; i++) a[i] = 1.0;
    uint32_t *drawn = (uint32_t *)(a + 3 * ELEMENTS);
    uint64_t state = 88172645463325252u; /* xorshift64: three independent draws a block */
    for (size_t i = 0; i < 3 * BLOCKS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        drawn[i] = (uint32_t)(state >> 32) & (BLOCKS - 1);
    }
    srand(1);
}

PK_REGION {
    double *a = (double *)pk->memory, *b = a + ELEMENTS, *c = b + ELEMENTS;
    const uint32_t *drawn = (const uint32_t *)(c + ELEMENTS);
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t at_a = 8 * PK_NAME(place)(MODE_A, drawn, i);
        size_t at_b = 8 * PK_NAME(place)(MODE_B, drawn + BLOCKS, i);
        size_t at_c = 8 * PK_NAME(place)(MODE_C, drawn + 2 * BLOCKS, i);
        __m256d a1 = _mm256_load_pd(&a[at_a]), a2 = _mm256_load_pd(&a[at_a + 4]);
        __m256d b1 = _mm256_load_pd(&b[at_b]), b2 = _mm256_load_pd(&b[at_b + 4]);
        _mm256_store_pd(&c[at_c], _mm256_mul_pd(a1, b1));
        _mm256_store_pd(&c[at_c + 4], _mm256_mul_pd(a2, b2));
    }
}
