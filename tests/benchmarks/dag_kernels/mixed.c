#define N 4000
int idx[N]; double x[N], acc[64];
volatile double out;
void setup(void) { for (int i = 0; i < N; i++) { idx[i] = (i * 37 + (i >> 4)) & 63; x[i] = i * .5; } }
void kernel(void) { for (int i = 0; i < N; i++) acc[idx[i]] += x[i] * (double)(i & 7); }
