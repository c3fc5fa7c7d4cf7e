#define N 20000
int idx[N]; double x[N];
volatile double out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < N; i++) { idx[i] = rnd() % N; x[i] = i; } }
void kernel(void) { double t = 0, u = 0; for (int i = 0; i < N; i += 2) { t += x[idx[i]]; u += x[idx[i + 1]]; } out = t + u; }
