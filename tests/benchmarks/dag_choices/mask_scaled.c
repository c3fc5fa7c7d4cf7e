// f8[1000]-1:1 f8[1000]0:1 1000
void f(const double *restrict a, double *restrict b, int n) { for (int i = 0; i < n; i++) b[i] = (a[i] < 0 ? 1.0 : 2.0) * a[i]; }
