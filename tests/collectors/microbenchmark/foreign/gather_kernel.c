/* A gather with MARTA's macros, as in its Fig. 2. */
#include "marta_wrapper.h"
#include <immintrin.h>
void gather_kernel(float *restrict x) {
    __m256i index = _mm256_set_epi32(IDX7, IDX6, IDX5, IDX4, IDX3, IDX2, IDX1, IDX0);
    __m256 tmp = _mm256_i32gather_ps(x, index, 4);
    DO_NOT_TOUCH(tmp);
    DO_NOT_TOUCH(index);
}
MARTA_BENCHMARK_BEGIN;
int n = N;
POLYBENCH_1D_ARRAY_DECL(x, float, N, n);
init_1darray(n, POLYBENCH_ARRAY(x));
MARTA_FLUSH_CACHE;
PROFILE_FUNCTION(gather_kernel(POLYBENCH_ARRAY(x) + OFFSET));
MARTA_AVOID_DCE(x);
MARTA_BENCHMARK_END;
