/* Deriche's recursive edge filter (float) */
#include "kernel.h"

#ifndef W
#define W 96
#endif
#ifndef H
#define H 64
#endif

static ALIGNED float image[W][H], smooth[W][H], forth[W][H], back[W][H];
OUTPUT(smooth)

EXPORT void setup(void) {
    FILLF(image);
}

KERNEL void deriche(void) {
    /* Coefficients for alpha = 0.25: e1 = exp(-alpha), e2 = exp(-2 alpha). */
    const float alpha = 0.25f, e1 = 0.77880078f, e2 = 0.60653066f;
    const float k = (1 - e1) * (1 - e1) / (1 + 2 * alpha * e1 - e2);
    const float a1 = k, a2 = k * e1 * (alpha - 1), a3 = k * e1 * (alpha + 1), a4 = -k * e2, b1 = 2 * e1, b2 = -e2;
    for (int i = 0; i < W; i++) { /* forth and back along rows */
        float ym1 = 0, ym2 = 0, xm1 = 0;
        for (int j = 0; j < H; j++) {
            forth[i][j] = a1 * image[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
            xm1 = image[i][j];
            ym2 = ym1;
            ym1 = forth[i][j];
        }
        float yp1 = 0, yp2 = 0, xp1 = 0, xp2 = 0;
        for (int j = H - 1; j >= 0; j--) {
            back[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
            xp2 = xp1;
            xp1 = image[i][j];
            yp2 = yp1;
            yp1 = back[i][j];
        }
        for (int j = 0; j < H; j++) smooth[i][j] = forth[i][j] + back[i][j];
    }
    for (int j = 0; j < H; j++) { /* the same along columns */
        float ym1 = 0, ym2 = 0, xm1 = 0;
        for (int i = 0; i < W; i++) {
            forth[i][j] = a1 * smooth[i][j] + a2 * xm1 + b1 * ym1 + b2 * ym2;
            xm1 = smooth[i][j];
            ym2 = ym1;
            ym1 = forth[i][j];
        }
        float yp1 = 0, yp2 = 0, xp1 = 0, xp2 = 0;
        for (int i = W - 1; i >= 0; i--) {
            back[i][j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2;
            xp2 = xp1;
            xp1 = smooth[i][j];
            yp2 = yp1;
            yp1 = back[i][j];
        }
    }
    for (int i = 0; i < W; i++)
        for (int j = 0; j < H; j++) smooth[i][j] = forth[i][j] + back[i][j];
}
