#define N 300
int a[N], b[N];
volatile int out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < N; i++) a[i] = rnd() % 10000; }
void kernel(void) { for (int i = 0; i < N; i++) { int v = a[i], j = i; while (j > 0 && b[j - 1] > v) { b[j] = b[j - 1]; j--; } b[j] = v; } out = b[0]; }
