/* Instructions that need care when they are traced. Every function is a region of its own. */
#include "kernel.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif
static ALIGNED double x[256], y[256];
static ALIGNED int which[256];
static ALIGNED long wide[256];
static ALIGNED char a[512], b[512];
static long log_[64];
OUTPUT(y)

EXPORT void setup(void) {
    FILL(x);
    FILL(y);
    for (int i = 0; i < 256; i++) which[i] = wide[i] = (int)(next() * 256);
    for (int i = 0; i < 512; i++) a[i] = b[i] = i;
}

KERNEL void strings(void) {
    char *to, *from;
    long count;
    for (long n = 0; n < 4; n++) {
        to = a, from = b, count = 9 * n;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count)::"memory");
        to = a, count = 5 * n;
        __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(7l) : "memory");
        to = a, from = b, count = 100;
        __asm__ volatile("repe cmpsb" : "+D"(to), "+S"(from), "+c"(count)::"memory", "cc");
        to = b, count = 300;
        __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(n + 40) : "memory", "cc");
        log_[n] = count;
        from = b, count = n;
        long last = 0;
        __asm__ volatile("rep lodsw" : "+S"(from), "+c"(count), "+a"(last)::"memory");
        log_[n + 8] = last;
    }
}

/* Flags live across recorded accesses, REP included: adc and setcc after mov. */
KERNEL void flags(void) {
    for (long i = 0; i < 20; i++) {
        long low = -1 + (i & 1), high = 0, count = i % 3;
        char *to = a, *from = b;
        __asm__ volatile("add $1, %0\n\tmov %3, %%r8\n\trep movsb\n\tadc $0, %1\n\tpush %1\n\tpop %3\n\tseto %%r8b"
                         : "+r"(low), "+r"(high), "+c"(count), "+m"(log_[i]), "+D"(to), "+S"(from)::"r8", "memory", "cc");
        log_[i + 32] = high;
    }
}

KERNEL void jump_table(void) {
    long s = 0;
    for (int i = 0; i < 100; i++) switch (which[i] % 12) {
        case 0: s += 3; break;
        case 1: s ^= 7; break;
        case 2: s *= 3; break;
        case 3: s -= 9; break;
        case 4: s |= 1; break;
        case 5: s += which[0]; break;
        case 6: s = ~s; break;
        case 7: s <<= 1; break;
        case 8: s += wide[i]; break;
        default: s++;
        }
    log_[0] = s;
}

/* Targets that no table names: computed in registers, so the tracer finds them one by one. */
KERNEL void computed_jump(void) {
    long s = 0;
    for (long i = 0; i < 9; i++)
        __asm__ volatile("lea 2f(%%rip), %%rax\n\tlea (%1,%1,2), %%rcx\n\tadd %%rcx, %%rax\n\tjmp *%%rax\n\t"
                         "2: .byte 0x48,0xff,0xc0\n\t.byte 0x48,0xff,0xc0\n\t.byte 0x48,0xff,0xc0\n\tadd %%rax, %0"
                         : "+r"(s) : "r"(i % 3) : "rax", "rcx", "cc");
    log_[1] = 0;
}

static __attribute__((noipa)) long callee(long n, long p, long q, long r, long s, long t, long u, long v) {
    return n < 2 ? u + v : callee(n - 1, p, q, r, s, t, v, u + v) + callee(n - 2, q, p, r, s, t, 1, 0);
}
static long (*pointers[2])(long, long, long, long, long, long, long, long) = {callee, callee};
KERNEL void calls(void) {
    log_[2] = callee(9, 1, 2, 3, 4, 5, 6, 7);
    log_[3] = pointers[which[0] & 1](5, 1, 2, 3, 4, 5, 6, 7);
}

/* Every general register is in use: nothing is free for the tracer. */
KERNEL void crowded(void) {
    long n = 40;
    __asm__ volatile(
        "push %%rbp\n\tpush %%rbx\n\tlea x_(%%rip), %%rbx\n\txor %%ebp, %%ebp\n1:\n\t"
        "mov (%%rbx,%%rbp,8), %%rax\n\tmov 8(%%rbx), %%rcx\n\tmov (%%rbx), %%rdx\n\tlea (%%rax,%%rcx), %%rsi\n\t"
        "mov %%rsi, %%rdi\n\tmov %%rdi, %%r8\n\tmov 16(%%rbx), %%r9\n\tmov %%r9, %%r10\n\tmov %%r10, %%r11\n\t"
        "mov %%r11, %%r12\n\tmov %%r12, %%r13\n\tmov (%%rbx,%%rbp), %%r14b\n\tmov %%r14, %%r15\n\t"
        "mov %%r15, 24(%%rbx)\n\tadd $1, %%rbp\n\tcmp $40, %%rbp\n\tjne 1b\n\tpop %%rbx\n\tpop %%rbp\n\t"
        ".pushsection .bss\n\t.balign 64\nx_: .skip 1024\n\t.popsection"
        : "+r"(n)::"rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc");
}

static __thread long local[4];
KERNEL void thread_local_data(void) {
    for (int i = 0; i < 40; i++) local[i & 3] += i;
}

KERNEL void stack_traffic(void) {
    for (long i = 0; i < 30; i++)
        __asm__ volatile("lea -256(%%rsp), %%rsp\n\tpush %0\n\tpushq (%1)\n\tpopq 8(%%rsp)\n\tpop %%rax\n\tpushfq\n\tpopfq\n\t"
                         "lock cmpxchg %%rcx, (%1)\n\tlock xadd %%rcx, 8(%1)\n\tlea 256(%%rsp), %%rsp"
                         ::"r"(i), "r"(&log_[40]) : "rax", "rcx", "memory", "cc");
}

#ifdef __AVX2__
KERNEL void gathers(void) {
    for (int i = 0; i < 248; i += 8) {
        __m256i narrow = _mm256_loadu_si256((const void *)(which + i)), far = _mm256_loadu_si256((const void *)(wide + i));
        __m256d mask = _mm256_cmp_pd(_mm256_loadu_pd(x + i), _mm256_set1_pd(0.5), _CMP_GT_OQ);
        __m256d p = _mm256_i32gather_pd(x, _mm256_castsi256_si128(narrow), 8);
        __m256d q = _mm256_mask_i64gather_pd(p, x, far, mask, 8);
        __m256 r = _mm256_i32gather_ps((const float *)x, narrow, 4);
        __m128 s = _mm256_i64gather_ps((const float *)x, far, 8);
        __m128i t = _mm_i64gather_epi32(which, _mm256_castsi256_si128(far), 4);
        _mm256_storeu_pd(y + i, p + q + _mm256_castps_pd(r));
        _mm_storeu_ps((float *)a, s);
        _mm_storeu_si128((void *)b, t);
    }
}

KERNEL void vector_masks(void) {
    for (int i = 0; i < 248; i += 4) {
        __m256i mask = _mm256_castpd_si256(_mm256_cmp_pd(_mm256_loadu_pd(x + i), _mm256_set1_pd(0.7), _CMP_GT_OQ));
        __m256d v = _mm256_maskload_pd(x + i, mask);
        _mm256_maskstore_pd(y + i, mask, v);
        _mm_maskstore_ps((float *)a, _mm256_castsi256_si128(mask), _mm_maskload_ps((float *)b, _mm256_extracti128_si256(mask, 1)));
        _mm256_maskstore_epi32(which, mask, _mm256_maskload_epi32(which, mask));
    }
}
#endif

#ifdef __AVX512F__
KERNEL void scatters(void) {
    for (int i = 0; i < 240; i += 16) {
        __m512i narrow = _mm512_loadu_si512(which + i), far = _mm512_loadu_si512(wide + i);
        __mmask16 m16 = _mm512_cmplt_epi32_mask(narrow, _mm512_set1_epi32(100));
        __mmask8 m8 = m16;
        __m512d p = _mm512_mask_i64gather_pd(_mm512_setzero_pd(), m8, far, x, 8);
        __m512 q = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), m16, narrow, x, 4);
        __m256 r = _mm512_mask_i64gather_ps(_mm256_setzero_ps(), m8, far, x, 4);
        _mm512_mask_i64scatter_pd(y, m8, far, p, 8);
        _mm512_mask_i32scatter_ps(y, m16, narrow, q, 4);
        _mm512_mask_i64scatter_ps(y, m8, far, r, 4);
        _mm512_mask_i32scatter_pd(y, m8, _mm512_castsi512_si256(narrow), p, 8);
    }
}

KERNEL void opmasks(void) {
    for (int i = 0; i < 240; i += 8) {
        __mmask8 m = _mm512_cmp_pd_mask(_mm512_loadu_pd(x + i), _mm512_set1_pd(0.8), _CMP_GT_OQ);
        __m512d v = _mm512_mask_loadu_pd(_mm512_setzero_pd(), m, x + i);
        v = _mm512_mask_add_pd(v, m, v, _mm512_maskz_expandloadu_pd(m, x + i));
        v = _mm512_mask_mul_pd(v, m, v, _mm512_set1_pd(x[i]));
        _mm512_mask_compressstoreu_pd(y, m, v);
        _mm512_mask_storeu_pd(y + i, m, v);
        __m128d one = _mm_mask_load_sd(_mm_setzero_pd(), m, x + i);
        _mm_mask_store_sd(y, m, one);
        __mmask64 m64 = (__mmask64)m * 0x0102040810204080ul;
        _mm512_mask_storeu_epi8(a, m64, _mm512_maskz_loadu_epi8(m64 << 1, b));
        __mmask32 m32 = m64;
        _mm512_mask_storeu_epi16(a + 64, m32, _mm512_maskz_loadu_epi16(m32, b));
        _mm512_mask_cvtepi32_storeu_epi8(a, (__mmask16)(m << 4), _mm512_loadu_si512(which));
        __asm__ volatile("vaddpd (%0)%{1to8%}, %%zmm0, %%zmm0%{%1%}" ::"r"(x + i), "Yk"(m) : "xmm0");
    }
}
#endif
