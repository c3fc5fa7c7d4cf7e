// u1[2000]0:256 u1[2000]0:256 u1[2000]0:256 u1[2000]0:1 2000
void f(const unsigned char *restrict a, const unsigned char *restrict b, const unsigned char *restrict m, unsigned char *restrict c, int n) { for (int i = 0; i < n; i++) c[i] = (a[i] * m[i] + b[i] * (255 - m[i])) / 255; }
