/* The macros of PolyBench/C's polybench.h, for kernels written to them; own work after its documentation. A study that
   lists PolyBench's own folder under `include` gets the original instead. Differences: instruments are the measuring
   process's (docs/studies.md), and arrays are aligned to 4096 bytes. */
#ifndef POLYBENCH_H
#define POLYBENCH_H
#include <stdio.h>
#include <stdlib.h>
#include "perfkit.h"

#ifndef POLYBENCH_PADDING_FACTOR
#define POLYBENCH_PADDING_FACTOR 0
#endif
#ifndef POLYBENCH_CACHE_SIZE_KB
#define POLYBENCH_CACHE_SIZE_KB 32770
#endif

/* C99 arrays of a run-time size, or the sizes of the data set. */
#ifdef POLYBENCH_USE_C99_PROTO
#define POLYBENCH_C99_SELECT(fixed, given) given
#else
#define POLYBENCH_C99_SELECT(fixed, given) fixed
#endif
#ifdef POLYBENCH_USE_SCALAR_LB
#define POLYBENCH_LOOP_BOUND(fixed, given) fixed
#else
#define POLYBENCH_LOOP_BOUND(fixed, given) given
#endif
#ifdef POLYBENCH_USE_RESTRICT
#define POLYBENCH_RESTRICT restrict
#else
#define POLYBENCH_RESTRICT
#endif

#ifdef POLYBENCH_STACK_ARRAYS
#define POLYBENCH_ARRAY(x) x
#define POLYBENCH_DECL_VAR(x) x
#define POLYBENCH_FREE_ARRAY(x)
#else
#define POLYBENCH_ARRAY(x) (*x)
#define POLYBENCH_DECL_VAR(x) (*x)
#define POLYBENCH_FREE_ARRAY(x) free((void *)x);
#endif
#define POLYBENCH_EXTENT_(fixed, given) [POLYBENCH_C99_SELECT(fixed, given) + POLYBENCH_PADDING_FACTOR]
#define POLYBENCH_1D(var, d1, g1) var POLYBENCH_EXTENT_(d1, g1)
#ifdef POLYBENCH_STACK_ARRAYS
#define POLYBENCH_1D_ARRAY_DECL(var, type, d1, g1) type POLYBENCH_1D(POLYBENCH_DECL_VAR(var), d1, g1);
#else
#define POLYBENCH_1D_ARRAY_DECL(var, type, d1, g1) \
    type POLYBENCH_1D(POLYBENCH_DECL_VAR(var), d1, g1); \
    *(void **)&var = polybench_alloc_data((size_t)(POLYBENCH_C99_SELECT(d1, g1) + POLYBENCH_PADDING_FACTOR), sizeof(type));
#endif
#define POLYBENCH_2D(var, d1, d2, g1, g2) var POLYBENCH_EXTENT_(d1, g1) POLYBENCH_EXTENT_(d2, g2)
#ifdef POLYBENCH_STACK_ARRAYS
#define POLYBENCH_2D_ARRAY_DECL(var, type, d1, d2, g1, g2) type POLYBENCH_2D(POLYBENCH_DECL_VAR(var), d1, d2, g1, g2);
#else
#define POLYBENCH_2D_ARRAY_DECL(var, type, d1, d2, g1, g2) \
    type POLYBENCH_2D(POLYBENCH_DECL_VAR(var), d1, d2, g1, g2); \
    *(void **)&var = polybench_alloc_data((size_t)(POLYBENCH_C99_SELECT(d1, g1) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d2, g2) + POLYBENCH_PADDING_FACTOR), sizeof(type));
#endif
#define POLYBENCH_3D(var, d1, d2, d3, g1, g2, g3) var POLYBENCH_EXTENT_(d1, g1) POLYBENCH_EXTENT_(d2, g2) POLYBENCH_EXTENT_(d3, g3)
#ifdef POLYBENCH_STACK_ARRAYS
#define POLYBENCH_3D_ARRAY_DECL(var, type, d1, d2, d3, g1, g2, g3) type POLYBENCH_3D(POLYBENCH_DECL_VAR(var), d1, d2, d3, g1, g2, g3);
#else
#define POLYBENCH_3D_ARRAY_DECL(var, type, d1, d2, d3, g1, g2, g3) \
    type POLYBENCH_3D(POLYBENCH_DECL_VAR(var), d1, d2, d3, g1, g2, g3); \
    *(void **)&var = polybench_alloc_data((size_t)(POLYBENCH_C99_SELECT(d1, g1) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d2, g2) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d3, g3) + POLYBENCH_PADDING_FACTOR), sizeof(type));
#endif
#define POLYBENCH_4D(var, d1, d2, d3, d4, g1, g2, g3, g4) var POLYBENCH_EXTENT_(d1, g1) POLYBENCH_EXTENT_(d2, g2) POLYBENCH_EXTENT_(d3, g3) POLYBENCH_EXTENT_(d4, g4)
#ifdef POLYBENCH_STACK_ARRAYS
#define POLYBENCH_4D_ARRAY_DECL(var, type, d1, d2, d3, d4, g1, g2, g3, g4) type POLYBENCH_4D(POLYBENCH_DECL_VAR(var), d1, d2, d3, d4, g1, g2, g3, g4);
#else
#define POLYBENCH_4D_ARRAY_DECL(var, type, d1, d2, d3, d4, g1, g2, g3, g4) \
    type POLYBENCH_4D(POLYBENCH_DECL_VAR(var), d1, d2, d3, d4, g1, g2, g3, g4); \
    *(void **)&var = polybench_alloc_data((size_t)(POLYBENCH_C99_SELECT(d1, g1) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d2, g2) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d3, g3) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d4, g4) + POLYBENCH_PADDING_FACTOR), sizeof(type));
#endif
#define POLYBENCH_5D(var, d1, d2, d3, d4, d5, g1, g2, g3, g4, g5) var POLYBENCH_EXTENT_(d1, g1) POLYBENCH_EXTENT_(d2, g2) POLYBENCH_EXTENT_(d3, g3) POLYBENCH_EXTENT_(d4, g4) POLYBENCH_EXTENT_(d5, g5)
#ifdef POLYBENCH_STACK_ARRAYS
#define POLYBENCH_5D_ARRAY_DECL(var, type, d1, d2, d3, d4, d5, g1, g2, g3, g4, g5) type POLYBENCH_5D(POLYBENCH_DECL_VAR(var), d1, d2, d3, d4, d5, g1, g2, g3, g4, g5);
#else
#define POLYBENCH_5D_ARRAY_DECL(var, type, d1, d2, d3, d4, d5, g1, g2, g3, g4, g5) \
    type POLYBENCH_5D(POLYBENCH_DECL_VAR(var), d1, d2, d3, d4, d5, g1, g2, g3, g4, g5); \
    *(void **)&var = polybench_alloc_data((size_t)(POLYBENCH_C99_SELECT(d1, g1) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d2, g2) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d3, g3) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d4, g4) + POLYBENCH_PADDING_FACTOR) * (size_t)(POLYBENCH_C99_SELECT(d5, g5) + POLYBENCH_PADDING_FACTOR), sizeof(type));
#endif

/* Every value of the result must be computed: printing it is possible, and never happens. */
#ifdef POLYBENCH_DUMP_ARRAYS
#define POLYBENCH_DCE_ONLY_CODE
#define polybench_prevent_dce(call) call
#else
#define POLYBENCH_DCE_ONLY_CODE if (argc > 42 && !argv[0][0])
#define polybench_prevent_dce(call) POLYBENCH_DCE_ONLY_CODE call
#endif
#define POLYBENCH_DUMP_TARGET stderr
#define POLYBENCH_DUMP_START fprintf(POLYBENCH_DUMP_TARGET, "==BEGIN DUMP_ARRAYS==\n")
#define POLYBENCH_DUMP_FINISH fprintf(POLYBENCH_DUMP_TARGET, "==END   DUMP_ARRAYS==\n")
#define POLYBENCH_DUMP_BEGIN(name) fprintf(POLYBENCH_DUMP_TARGET, "begin dump: %s", name)
#define POLYBENCH_DUMP_END(name) fprintf(POLYBENCH_DUMP_TARGET, "\nend   dump: %s\n", name)

static inline __attribute__((__unused__)) void *polybench_alloc_data(unsigned long long pk_items, int pk_size) {
    void *pk_got = NULL;
    if (posix_memalign(&pk_got, 4096, pk_items * (size_t)pk_size ? pk_items * (size_t)pk_size : 1)) {
        fprintf(stderr, "no memory for %llu items of %d bytes\n", pk_items, pk_size);
        exit(1);
    }
    return pk_got;
}
static inline __attribute__((__unused__)) void polybench_free_data(void *pk_data) { free(pk_data); }
/* What the caches held is replaced by an array of the cache's size. */
static inline __attribute__((__unused__)) void polybench_flush_cache(void) {
    size_t pk_items = (size_t)POLYBENCH_CACHE_SIZE_KB * 1024 / sizeof(double);
    double *pk_flush = (double *)calloc(pk_items, sizeof(double)), pk_sum = 0;
    for (size_t pk_at = 0; pk_flush && pk_at < pk_items; pk_at++) pk_sum += pk_flush[pk_at];
    PK_KEEP_VECTOR(pk_sum);
    free(pk_flush);
}
static inline __attribute__((__unused__)) void polybench_prepare_instruments(void) {
#ifndef POLYBENCH_NO_FLUSH_CACHE
    polybench_flush_cache();
#endif
}
#define polybench_start_instruments (polybench_prepare_instruments(), pk_start());
#define polybench_stop_instruments pk_stop();
#define polybench_print_instruments
#define polybench_timer_start polybench_prepare_instruments(), pk_start
#define polybench_timer_stop pk_stop
#define polybench_timer_print()
#endif
