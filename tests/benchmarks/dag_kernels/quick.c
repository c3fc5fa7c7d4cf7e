#define N 2000
int a[N], b[N];
volatile int out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < N; i++) a[i] = rnd() % 100000; }
__attribute__((noinline)) void qs(int *v, int lo, int hi) { if (lo >= hi) return;
int p = v[(lo + hi) / 2], i = lo, j = hi; while (i <= j) { while (v[i] < p) i++; while (v[j] > p) j--; if (i <= j) { int t = v[i]; v[i] = v[j]; v[j] = t; i++; j--; } } qs(v, lo, j); qs(v, i, hi); }
void kernel(void) { for (int i = 0; i < N; i++) b[i] = a[i]; qs(b, 0, N - 1); out = b[0]; }
