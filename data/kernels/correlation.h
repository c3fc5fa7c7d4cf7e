/* What the seven versions of the correlation kernel share (Gus paper, section 3.3, Fig. 5 and Table 2): corr = data^T
   data, computed in the lower triangle and mirrored. M and N must be multiples of 48, which all tiles divide. */
#pragma once
#include "kernel.h"

#ifndef M
#define M 48
#endif
#ifndef N
#define N 48
#endif
#if M % 48 || N % 48
#error "M and N must be multiples of 48"
#endif

static ALIGNED double data[N][M], corr[M][M];
OUTPUT(corr)

EXPORT void setup(void) {
    FILL(data);
    for (int i = 0; i < M * M; i++) ((double *)corr)[i] = 0;
}

typedef double vec __attribute__((vector_size(32), may_alias)); /* four doubles: an AVX2 register */
#define LOAD(p) (*(const vec *)(p))
#define STORE(p, x) (*(vec *)(p) = (x))
#define SPLAT(p) ((vec){*(p), *(p), *(p), *(p)})

/* Pointers that the compiler knows nothing about: it may not assume that corr and data are apart, and so does not hoist
   by itself what a version leaves in the loop. */
#define POINTERS                  \
    double *c = (double *)corr;   \
    const double *x = (double *)data; \
    KEEP(c);                      \
    KEEP(x)

static inline __attribute__((always_inline)) void mirror(double *c) {
    for (int j = 0; j < M; j++)
        for (int i = j + 1; i < M; i++) c[j * M + i] = c[i * M + j];
}
