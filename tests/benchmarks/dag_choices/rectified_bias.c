// f4[1000]-1:1 f4[1000]-1:1 1000
void f(float *restrict a, const float *restrict b, int n) { for (int i = 0; i < n; i++) { float t = a[i] + b[i]; a[i] = t > 0 ? t : 0; } }
