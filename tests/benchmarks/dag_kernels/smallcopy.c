char a[64], b[64];
void kernel(void) { for (int k = 0; k < 200; k++) { long n = 40;
void *d = b, *s = a; __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) :: "memory"); } }
