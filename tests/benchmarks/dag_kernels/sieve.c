char s[20000];
volatile long out;
void kernel(void) { for (int i = 0; i < 20000; i++) s[i] = 1; for (int i = 2; i * i < 20000; i++) if (s[i]) for (int j = i * i; j < 20000; j += i) s[j] = 0;
long t = 0; for (int i = 2; i < 20000; i++) t += s[i]; out = t; }
