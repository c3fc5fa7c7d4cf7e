volatile long out;
int n = 12;
long pegs[3];
__attribute__((noinline)) void move(int n, int a, int b, int c) { if (!n) return; move(n - 1, a, c, b); pegs[a] -= n; pegs[c] += n; move(n - 1, b, a, c); }
void kernel(void) { move(n, 0, 1, 2); out = pegs[2]; }
