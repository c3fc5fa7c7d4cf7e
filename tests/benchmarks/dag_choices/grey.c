// u1[6000]0:256 u1[2000]0:1 2000
void f(const unsigned char *restrict a, unsigned char *restrict b, int n) { for (int i = 0; i < n; i++) b[i] = (77 * a[3 * i] + 150 * a[3 * i + 1] + 29 * a[3 * i + 2]) >> 8; }
