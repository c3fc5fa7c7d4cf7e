#define N 8192
unsigned char d[N]; unsigned h[256];
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < N; i++) d[i] = rnd() & rnd() & 255; }
void kernel(void) { for (int i = 0; i < N; i++) h[d[i]]++; }
