/* Functions for other instruction sets, each a region to trace: `main N` runs the N-th. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#define REGION __attribute__((noipa))
unsigned char text[600], copy[600];
int16_t shorts[300];
double x[300], y[300], z[300];
float f[300], g[300], h[300];
int64_t longs[300];
struct node { struct node *next; int16_t small; int64_t value; } nodes[64];
struct pair { int64_t a, b; double c, d; } pairs[40], others[40];

REGION long bytes(void) {
    long n = 0;
    unsigned char *to = copy;
    for (const unsigned char *p = text; *p; p++) {
        *to++ = *p ^ 0x20;
        n += *p == 'a';
    }
    return n;
}
REGION double triad(double a) {
    double s = 0;
    for (int i = 0; i < 201; i++) {
        z[i] = x[i] + a * y[i];
        s += z[i];
    }
    return s;
}
REGION void singles(float a) {
    for (int i = 0; i < 203; i++) h[i] = a * f[i] - g[i] * g[i];
}
REGION long list(void) {
    long s = 0;
    for (struct node *p = nodes; p; p = p->next) s += p->value + p->small;
    return s;
}
REGION void structs(void) {
    for (int i = 0; i < 40; i++) {
        others[i] = pairs[39 - i];
        others[i].a += others[i].b;
    }
}
REGION long fibonacci(long n) { /* a stack, and calls of itself that are not in the region's first call */
    volatile long local[4] = {n, 1, 2, 3};
    for (int i = 0; i < 20; i++) local[i & 3] += local[(i + 1) & 3] * n;
    return local[0] + local[3];
}
REGION long halves(void) {
    long s = 0;
    for (int i = 0; i < 200; i++) {
        shorts[i] = (int16_t)(shorts[i] * 3 + longs[i]);
        s += shorts[i] + (uint16_t)shorts[299 - i];
    }
    return s;
}
#ifdef __aarch64__
#include <arm_neon.h>
REGION void interleaved(void) {
    for (int i = 0; i < 90; i += 12) {
        float32x4x3_t three = vld3q_f32(f + i);
        float32x4x2_t two = {{vaddq_f32(three.val[0], three.val[1]), three.val[2]}};
        vst2q_f32(g + i, two);
        uint8x8x4_t four = vld4_u8(text + i);
        vst4_u8(copy + 2 * i, four);
        uint8x16x4_t list = vld1q_u8_x4(text + 3 * i);
        vst1q_u8_x4(copy + i, list);
        float64x2_t lane = vld1q_lane_f64(x + i, vdupq_n_f64(1), 1);
        float32x4_t all = vld1q_dup_f32(h + i + 1);
        vst1q_lane_f32(h + i, all, 2);
        vst1q_f64(y + i + 1, vmulq_f64(lane, vld1q_f64(z + i)));
        int16x4x2_t twice = vld2_dup_s16(shorts + i);
        vst2_lane_s16(shorts + i + 3, twice, 1);
    }
}
extern long modes(void *, long);
__asm__(".globl modes\n.type modes, %function\nmodes:\n"
        "stp x29, x30, [sp, #-32]!\n mov x3, x0\n mov x4, #-2\n mov x9, x0\n mov x5, #12\n"
        "1: ldr x6, [x3], #24\n ldr w6, [x3, #-4]!\n ldr x7, [x9, x5, lsl #3]\n ldr x7, [x9, x5]\n"
        "add x8, x9, #256\n and x8, x8, #-16\n ldrh w6, [x8, w4, sxtw]\n ldrsh x6, [x8, w4, sxtw #1]\n ldrb w6, [x9, w5, uxtw]\n"
        "str q0, [x8, x5, lsl #4]\n ldpsw x6, x7, [x9, #8]\n ldp w6, w7, [x9], #8\n stp q0, q1, [x8, #-32]!\n"
        "ldnp d2, d3, [x8, #16]\n stnp x6, x7, [x8]\n ldr x10, =0x123456789abcdef\n ldr d5, 2f\n"
        "ldur x6, [x8, #-20]\n stur q0, [x8, #5]\n ldar x6, [x8]\n stlr w6, [x8]\n prfm pldl1keep, [x8, #64]\n dc zva, x8\n"
        "ldxr x6, [x8]\n add x6, x6, #1\n stxr w7, x6, [x8]\n"
        "ldxp x6, x7, [x8]\n stxp w10, x6, x7, [x8]\n ldr b1, [x8, #3]\n str h1, [x8, #6]\n"
        "ld1 {v0.16b, v1.16b, v2.16b}, [x8], #48\n st1 {v0.8h, v1.8h}, [x8], x5\n st3 {v0.b, v1.b, v2.b}[7], [x8], #3\n"
        "ld1r {v4.8b}, [x8]\n and x8, x8, #-16\n stp x29, x30, [sp, #16]\n ldp x29, x30, [sp, #16]\n"
        "sub x1, x1, #1\n cbnz x1, 1b\n ldp x29, x30, [sp], #32\n ret\n.balign 8\n2: .quad 77\n.ltorg\n"
        ".size modes, . - modes\n");
static char room[8192] __attribute__((aligned(4096)));
#endif

int main(int argc, char **argv) {
    for (int i = 0; i < 599; i++) text[i] = 'A' + i % 40;
    for (int i = 0; i < 300; i++) {
        x[i] = i, y[i] = 1 + i % 7, f[i] = i * 0.5f, g[i] = 3, shorts[i] = i * 77, longs[i] = i * i;
        if (i < 64) nodes[(i * 29) % 64] = (struct node){i < 63 ? &nodes[((i + 1) * 29) % 64] : NULL, i, i};
    }
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 0: return (int)bytes();
    case 1: return (int)triad(3);
    case 2: singles(2); return 0;
    case 3: return (int)list();
    case 4: structs(); return 0;
    case 5: return (int)fibonacci(5);
    case 6: return (int)halves();
#ifdef __aarch64__
    case 7: interleaved(); return 0;
    case 8: return (int)modes(room + 3900, 20);
#endif
    }
    return 99;
}
