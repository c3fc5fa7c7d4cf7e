#define N 4096
int a[N], q[2000];
volatile long out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < N; i++) a[i] = 3 * i; for (int i = 0; i < 2000; i++) q[i] = rnd() % (3 * N); }
void kernel(void) { long t = 0; for (int k = 0; k < 2000; k++) { int lo = 0, hi = N; while (lo < hi) { int mid = (lo + hi) / 2; if (a[mid] < q[k]) lo = mid + 1; else hi = mid; } t += lo; } out = t; }
