/* RQ1 of MARTA: one SIMD gather of ELEMENTS floats at the given indices, from memory that no cache holds.
   Each execution gathers from a place of its own, OFFSET bytes on, so nothing is used twice (the paper's Fig. 2 and 3). */
#include <immintrin.h>

/* All the lines that any variant may touch: 8 lines an execution. */
PK_FLUSH {
    for (long step = 0; step < pk->steps; step++) pk_flush_range(pk->memory + (size_t)step * OFFSET, 512);
}

PK_REGION {
    const float *x = (const float *)(pk->memory + (size_t)step * OFFSET);
#if WIDTH == 256
    __m256i index = _mm256_set_epi32(IDX7, IDX6, IDX5, IDX4, IDX3, IDX2, IDX1, IDX0);
    __m256i lane = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    __m256 mask = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(ELEMENTS), lane));
    PK_KEEP_VECTOR(index);
    __m256 got = _mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, index, mask, 4);
#else
    __m128i index = _mm_set_epi32(IDX3, IDX2, IDX1, IDX0);
    __m128i lane = _mm_set_epi32(3, 2, 1, 0);
    __m128 mask = _mm_castsi128_ps(_mm_cmpgt_epi32(_mm_set1_epi32(ELEMENTS), lane));
    PK_KEEP_VECTOR(index);
    __m128 got = _mm_mask_i32gather_ps(_mm_setzero_ps(), x, index, mask, 4);
#endif
    PK_KEEP_VECTOR(got);
}
