/* What a perfkit kernel includes implicitly; a whole program may include it for PK_START and PK_STOP. See docs/studies.md. */
#ifndef PERFKIT_H
#define PERFKIT_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PK_REPORTS = 16, PK_REPORT_NAME = 32 }; /* the reports that a row holds; the letters of a name, with the 0 at its end */

/* A study's dimensions are macros, defined before this: beside what kernels use, every name begins with pk_ (words of
   __attribute__ have underscores). */
typedef struct pk_context {
    long steps;          /* executions in a timed window */
    char *memory;        /* the study's memory: 2 MiB aligned, touched, flushed before a cold window */
    size_t memory_size;
    int threads;
    uint64_t pk_begun;   /* PK_BEGIN ... PK_END inside a region: only what lies between is timed */
    uint64_t pk_ticks;
    long pk_begins, pk_marked;
    int pk_reports, pk_kept; /* pk_kept: those of PK_SETUP */
    struct { char pk_name[PK_REPORT_NAME]; double pk_value; } pk_reported[PK_REPORTS];
    char pk_lost[PK_REPORT_NAME + 16]; /* a report that has no room */
    const void *pk_thread;             /* the one that is between its marks: those of another must not lie among them */
    int pk_mixed;
} pk_context;

#ifdef __cplusplus
#define PK_LINKAGE extern "C" __attribute__((__visibility__("default")))
#define restrict __restrict__
#else
#define PK_LINKAGE __attribute__((__visibility__("default")))
#endif

/* Every variant is compiled alone, so its names need no care; kernels that took care still compile. */
#define PK_NAME(name) name

/* The region of interest: executed pk->steps times in a timed window; `step` counts them. */
#ifdef step /* a dimension of that name is what a kernel means */
#define PK_REGION static inline __attribute__((__always_inline__)) void pk_region(pk_context *pk, long pk_step)
#else
#define PK_REGION static inline __attribute__((__always_inline__)) void pk_region(pk_context *pk, long step)
#endif
/* Optional: run once before, and once after, a configuration is measured. */
#define PK_SETUP PK_LINKAGE void pk_setup(pk_context *pk)
#define PK_TEARDOWN PK_LINKAGE void pk_teardown(pk_context *pk)

/* Optional: flushes what the region reads, before every cold window; without it the whole memory is flushed. */
#define PK_FLUSH PK_LINKAGE void pk_flush(pk_context *pk)

static inline __attribute__((__unused__)) void pk_flush_range(const void *pk_from, size_t pk_size) {
    const char *pk_at = (const char *)((uintptr_t)pk_from & ~(uintptr_t)63), *pk_end = (const char *)pk_from + pk_size;
    for (; pk_at < pk_end; pk_at += 64) __asm__ volatile("clflush (%0)" : : "r"(pk_at) : "memory");
}

/* The compiler must compute the value, and may assume nothing of it afterwards. */
#define PK_KEEP(value) __asm__ volatile("" : "+r"(value) : : "memory")
#define PK_KEEP_VECTOR(value) __asm__ volatile("" : "+v"(value) : : "memory")
/* Everything in memory may be read here: stores before it stay. */
#define PK_KEEP_MEMORY() __asm__ volatile("" : : : "memory")

/* Before each execution: no instruction, which compilers take for a jump over the execution. What may not be executed at
   all they do not execute beforehand, once for all executions: such as a call of a function that depends on its arguments
   alone, which a memory clobber does not hinder. */
#if defined(__clang__) && __clang_major__ < 9
#define PK_MAY_GO_TO(label) \
    if (0) goto label
#else
#define PK_MAY_GO_TO(label) __asm__ goto("" : : : : label)
#endif
/* After each execution: keeps the compiler from merging two, and notes where a no-op of three bytes stands, in place of
   which the measuring process puts a fence (lfence, three bytes as well) to have executions one after the other. */
#if defined(__clang__) ? __clang_major__ >= 11 : __GNUC__ >= 9
#define PK_INLINE_ASM __asm__ volatile inline /* counts as one instruction where the compiler weighs what to unroll */
#else
#define PK_INLINE_ASM __asm__ volatile
#endif
#define PK_EXECUTION_ENDS() \
    PK_INLINE_ASM("771:\n\t.byte 0x0f, 0x1f, 0x00\n\t.pushsection pk_places, \"a\", @progbits\n\t.long 771b - .\n\t.popsection" : : : "memory")
#define PK_FENCES \
    extern const int __start_pk_places[] __attribute__((__weak__, __visibility__("hidden"))); \
    extern const int __stop_pk_places[] __attribute__((__weak__, __visibility__("hidden"))); \
    PK_LINKAGE const int *pk_fences(int pk_end) { return pk_end ? __stop_pk_places : __start_pk_places; }

static inline uint64_t pk_now(void) {
    unsigned pk_low, pk_high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(pk_low), "=d"(pk_high) : : "memory");
    return pk_low | (uint64_t)pk_high << 32;
}
static inline const void *pk_this_thread(void) { /* the first word of a thread's own data is its address */
    const void *pk_it;
    __asm__ volatile("mov{q %%fs:0, %0| %0, QWORD PTR fs:0}" : "=r"(pk_it)); /* in either syntax: kernels may have -masm=intel */
    return pk_it;
}
/* Stays in the object where the compiler drops the code around it, and linkers what nothing uses (--gc-sections): a mark
   that stands in a region is to be reached. */
#if defined(__has_attribute)
#if __has_attribute(__retain__)
#define PK_STAYS __attribute__((__used__, __retain__))
#endif
#endif
#ifndef PK_STAYS
#define PK_STAYS __attribute__((__used__))
#endif
#define PK_BEGIN \
    __extension__({ \
        static const char pk_note[] PK_STAYS = "perfkit: a region has PK_BEGIN"; \
        pk->pk_mixed |= pk->pk_begun && pk->pk_thread != pk_this_thread(); \
        pk->pk_thread = pk_this_thread(), pk->pk_begins++, pk->pk_begun = pk_now(); \
    })
#define PK_END \
    (pk->pk_ticks += pk_now() - pk->pk_begun, pk->pk_mixed |= pk->pk_begun && pk->pk_thread != pk_this_thread(), pk->pk_begun = 0, pk->pk_marked++) /* without a beginning: since the machine's start */

/* A figure of the kernel's own, e.g. the bytes it moved: becomes a column. */
static inline __attribute__((__unused__)) void pk_report(pk_context *pk, const char *pk_name, double pk_value) {
    if (pk->pk_reports < PK_REPORTS) {
        if (snprintf(pk->pk_reported[pk->pk_reports].pk_name, PK_REPORT_NAME, "%s", pk_name) >= PK_REPORT_NAME)
            snprintf(pk->pk_lost, sizeof pk->pk_lost, "%s", pk_name);
        pk->pk_reported[pk->pk_reports++].pk_value = pk_value;
    } else if (pk->steps == 1 || pk->pk_reports < 4 * PK_REPORTS) { /* later ones are the same again: looked at for a while only, for it takes time */
        int pk_known = 0;
        for (int pk_at = 0; pk_at < PK_REPORTS && !pk_known; pk_at++) pk_known = !strcmp(pk->pk_reported[pk_at].pk_name, pk_name);
        if (!pk_known) snprintf(pk->pk_lost, sizeof pk->pk_lost, "%s", pk_name);
        pk->pk_reports++;
    }
}
/* Whole programs: what lies between is timed. */
#ifdef __cplusplus
extern "C" {
#endif
void pk_start(void);
void pk_stop(void);
#ifdef __cplusplus
}
#endif
#define PK_START pk_start()
#define PK_STOP pk_stop()

#define PK_REPORT(name, value) pk_report(pk, name, value)
#endif
