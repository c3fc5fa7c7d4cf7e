char a[8192], b[8192];
void kernel(void) { for (int k = 0; k < 8; k++) { long n = 8192;
void *d = b, *s = a; __asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) :: "memory"); } }
