// f4[1000]-1:1 f4[1000]0:1 1000
void f(const float *restrict a, float *restrict b, int n) { for (int i = 0; i < n; i++) b[i] = a[i] > 0 ? a[i] : .01f * a[i]; }
