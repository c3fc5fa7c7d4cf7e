#define N 4096
double a[N], b[N];
void setup(void) { for (int i = 0; i < N; i++) a[i] = i; }
__attribute__((target("avx512f"))) void kernel(void) { for (int r = 0; r < 4; r++) for (int i = 0; i < N; i += 8) { typedef double v __attribute__((vector_size(64))); v x = *(v *)(a + i); x = x * x + x; x = x * x + x; x = x * x - x; x = x * x + x; *(v *)(b + i) = x; } }
