// f8[1000]-9:9 f8[1000]0:1 1000
void f(const double *restrict a, double *restrict b, int n) { for (int i = 0; i < n; i++) { int k = (int)(a[i] * .25); b[i] = a[i] - 4 * k; } }
