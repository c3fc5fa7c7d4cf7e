// f4[1000]0:1 f4[1000]0:1 f4[1000]0:1 f4[1000]0:1 1000
void f(const float *restrict a, const float *restrict b, const float *restrict t, float *restrict c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] + t[i] * (b[i] - a[i]); }
