// u4[1000]0:4000000000 u4[1000]0:4000000000 u4[1000]0:1 1000
void f(const unsigned *restrict a, const unsigned *restrict b, unsigned *restrict c, int n) { for (int i = 0; i < n; i++) { unsigned w = a[i] >> 24, v = 256 - w; unsigned r = ((a[i] & 0xff00ff) * w + (b[i] & 0xff00ff) * v) >> 8 & 0xff00ff, g = ((a[i] & 0xff00) * w + (b[i] & 0xff00) * v) >> 8 & 0xff00; c[i] = r | g; } }
