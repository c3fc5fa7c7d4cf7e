// f8[800]-1:1 f8[800]-1:1 f8[800]-1:1 800
void f(const double *restrict a, const double *restrict b, double *restrict c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] > b[i] ? a[i] * 2 : b[i] - 1; }
