#include <immintrin.h>
#define N 4096
float a[N], b[N];
void setup(void) { for (int i = 0; i < N; i++) a[i] = i + 1; }
void kernel(void) { for (int i = 0; i < N; i += 4) _mm_storeu_ps(b + i, _mm_rsqrt_ps(_mm_loadu_ps(a + i))); }
