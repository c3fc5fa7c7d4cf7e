// f8[1000]-1:2 f8[1000]0:1 1000
void f(const double *restrict a, double *restrict b, int n) { for (int i = 0; i < n; i++) { double t = a[i] < 0 ? 0 : a[i]; b[i] = t > 1 ? 1 : t; } }
