#include <immintrin.h>
volatile float out; float start = 1.3f;
void kernel(void) { __m128 x = _mm_set1_ps(start); for (int i = 0; i < 1000; i++) x = _mm_add_ps(_mm_rcp_ps(x), _mm_set1_ps(1.0f)); out = _mm_cvtss_f32(x); }
