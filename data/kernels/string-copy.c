/* REP MOVSB (a call of memcpy where there is none) */
#include "kernel.h"

#ifndef N
#define N 3000
#endif
#ifndef COUNT
#define COUNT 8
#endif

static ALIGNED char a[N], b[N];
OUTPUT(a)

EXPORT void setup(void) {
    for (int i = 0; i < N; i++) b[i] = i;
}

KERNEL void string_copy(void) {
    for (int k = 0; k < COUNT; k++) {
    #if defined(__x86_64__)
        char *to = a, *from = b;
        long count = N - k;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
    #else
        for (int i = 0; i < N - k; i++) a[i] = b[i];
    #endif
    }
}
