volatile long out;
void kernel(void) { long best = 0; for (long i = 1; i < 300; i++) { long n = i, c = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; c++; } if (c > best) best = c; } out = best; }
