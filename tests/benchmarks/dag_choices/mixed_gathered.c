// f8[1000]0:60 f8[64]0:1 f8[1000]0:1 1000
void f(const double *restrict x, const double *restrict t, double *restrict y, int n) { for (int i = 0; i < n; i++) { int k = x[i]; double u = x[i] - k; y[i] = t[k] + u * (t[k + 1] - t[k]); } }
