char text[16385];
volatile long out; char pat[] = "needle";
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { for (int i = 0; i < 16384; i++) text[i] = "nedlabcxyz fghij"[rnd() & 15]; }
void kernel(void) { long t = 0; for (int i = 0; i < 16384 - 6; i++) { int j = 0; while (j < 6 && text[i + j] == pat[j]) j++; if (j == 6) t = i; } out = t; }
