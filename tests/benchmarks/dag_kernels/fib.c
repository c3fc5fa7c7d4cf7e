long n = 18;
volatile long out;
__attribute__((noinline)) long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
void kernel(void) { out = fib(n); }
