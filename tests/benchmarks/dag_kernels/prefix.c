#define N 4000
double a[N], p[N];
void setup(void) { for (int i = 0; i < N; i++) a[i] = i; }
void kernel(void) { volatile double t = 0; for (int i = 0; i < N; i++) { t = t + a[i]; p[i] = t; } }
