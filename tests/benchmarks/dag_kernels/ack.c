volatile long out;
long m=2,n=60;
__attribute__((noinline)) long ack(long m, long n) { if (!m) return n + 1; if (!n) return ack(m - 1, 1); return ack(m - 1, ack(m, n - 1)); }
void kernel(void) { out = ack(m, n); }
