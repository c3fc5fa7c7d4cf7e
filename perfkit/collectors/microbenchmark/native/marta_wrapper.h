/* The macros of MARTA's marta_wrapper.h (Horro et al., Fig. 2), for kernels written to them; own work after its
   documentation. A study that lists MARTA's own folder under `include` gets the original instead. PROFILE_FUNCTION runs
   its argument TSTEPS times between the measuring process's marks; the study's figures are of all TSTEPS executions, so
   divide by TSTEPS (a derived column) for one. */
#ifndef MARTA_WRAPPER_H
#define MARTA_WRAPPER_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifndef DATA_TYPE
#if defined(DATA_TYPE_IS_INT)
#define DATA_TYPE int
#define DATA_PRINTF_MODIFIER "%d "
#elif defined(DATA_TYPE_IS_DOUBLE)
#define DATA_TYPE double
#define DATA_PRINTF_MODIFIER "%0.2lf "
#else
#define DATA_TYPE float
#define DATA_PRINTF_MODIFIER "%0.2f "
#endif
#endif
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "polybench.h"

#ifndef NRUNS
#define NRUNS 1000
#endif
#ifndef TSTEPS
#define TSTEPS NRUNS
#endif
#define MARTA_NO_HEADER 0
#define MARTA_CSV_HEADER 1

/* Both spellings: MARTA_BENCHMARK_BEGIN; and MARTA_BENCHMARK_BEGIN(MARTA_NO_HEADER); */
static inline __attribute__((__unused__)) void marta_begins(int pk_header, ...) { (void)pk_header; }
#define MARTA_BENCHMARK_BEGIN \
    int main(int argc, char **argv) { \
        (void)argc, (void)argv; \
        marta_begins
#define MARTA_BENCHMARK_END \
    return 0; \
    }

#define DO_NOT_TOUCH(var) __asm__ volatile("" : "+x"(var))
#define DO_NOT_TOUCH_READ(var) __asm__ volatile("" : "+rm"(var))
#define DO_NOT_TOUCH_WRITE(var) __asm__ volatile("" : : "rm"(var) : "memory")
#define CLOBBER_MEMORY __asm__ volatile("" : : : "memory")
#define CLOBBER_MEM CLOBBER_MEMORY
#define INLINE_PREFIX __attribute__((__always_inline__)) inline
#define EXPAND_STRING(text) #text
#define TO_STRING(text) EXPAND_STRING(text)

#define MARTA_FLUSH_CACHE polybench_flush_cache()
static inline __attribute__((__unused__)) void intel_clflush(volatile void *pk_from, unsigned int pk_size) { pk_flush_range((const void *)pk_from, pk_size); }

/* What is executed once more is on no account merged with what was. */
#define PROFILE_FUNCTION_NO_LOOP(call) \
    { \
        pk_start(); \
        call; \
        CLOBBER_MEMORY; \
        pk_stop(); \
    }
#define PROFILE_FUNCTION_STEPS_(call, steps) \
    { \
        pk_start(); \
        for (long __marta_tsteps = 0; __marta_tsteps < (long)(steps); __marta_tsteps++) { \
            call; \
            CLOBBER_MEMORY; \
        } \
        pk_stop(); \
    }
#define MARTA_THIRD_(a, b, c, ...) c
#define PROFILE_FUNCTION_LOOP(...) MARTA_THIRD_(__VA_ARGS__, PROFILE_FUNCTION_STEPS_, MARTA_ONE_, )(__VA_ARGS__)
#define MARTA_ONE_(call) PROFILE_FUNCTION_STEPS_(call, TSTEPS)
#define PROFILE_FUNCTION(call) PROFILE_FUNCTION_STEPS_(call, TSTEPS)
#define PROFILE_FUNCTION_SINGLE_VAL(steps, call) PROFILE_FUNCTION_STEPS_(call, steps)

/* Read back through memory: the compiler must have written what it points to. */
static inline __attribute__((__unused__)) void marta_avoids_dce(int pk_first, ...) { (void)pk_first; }
#define MARTA_AVOID_DCE(...) \
    do { \
        CLOBBER_MEMORY; \
        if (argc > 42) marta_avoids_dce(0, __VA_ARGS__); \
    } while (0)

static __attribute__((__unused__)) void init_1darray(int pk_items, DATA_TYPE *pk_array) {
    for (int pk_at = 0; pk_at < pk_items; pk_at++) pk_array[pk_at] = (DATA_TYPE)42;
}
static __attribute__((__unused__)) void print_array1d(int pk_items, DATA_TYPE *pk_array) {
    POLYBENCH_DUMP_START;
    for (int pk_at = 0; pk_at < pk_items; pk_at++) fprintf(POLYBENCH_DUMP_TARGET, "%g ", (double)pk_array[pk_at]);
    POLYBENCH_DUMP_FINISH;
}
#endif
