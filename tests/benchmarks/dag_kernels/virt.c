typedef double (*op)(double); 
__attribute__((noinline)) double f0(double x) { return x + 1; } __attribute__((noinline)) double f1(double x) { return x * .5; } __attribute__((noinline)) double f2(double x) { return x - 3; } __attribute__((noinline)) double f3(double x) { return x * x * 1e-3; }
op ops[4] = { f0, f1, f2, f3 }; unsigned char sel[3000];
volatile double out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < 3000; i++) sel[i] = rnd() & 3; }
void kernel(void) { double x = 1; for (int i = 0; i < 3000; i++) x = ops[sel[i]](x); out = x; }
