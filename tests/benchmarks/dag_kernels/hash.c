#define N 16384
unsigned long keys[N], q[3000];
volatile long out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
static unsigned long h(unsigned long k) { return (k * 0x9E3779B97F4A7C15UL) >> 50; }
void setup(void) { for (int i = 0; i < 10000; i++) { unsigned long k = rnd() % 30000 + 1, j = h(k); while (keys[j] && keys[j] != k) j = (j + 1) & (N - 1); keys[j] = k; } for (int i = 0; i < 3000; i++) q[i] = rnd() % 30000 + 1; }
void kernel(void) { long t = 0; for (int i = 0; i < 3000; i++) { unsigned long k = q[i], j = h(k); while (keys[j] && keys[j] != k) j = (j + 1) & (N - 1); t += keys[j] == k; } out = t; }
