/* correlation matrix of M variables over N points */
#include "kernel.h"

#ifndef M
#define M 48
#endif
#ifndef N
#define N 60
#endif

static ALIGNED double data[N][M], corr[M][M], mean[M], sd[M];
OUTPUT(corr)

EXPORT void setup(void) {
    FILL(data);
}

KERNEL void correlation(void) {
    for (int j = 0; j < M; j++) {
        mean[j] = 0;
        for (int i = 0; i < N; i++) mean[j] += data[i][j];
        mean[j] /= N;
    }
    for (int j = 0; j < M; j++) {
        sd[j] = 0;
        for (int i = 0; i < N; i++) sd[j] += (data[i][j] - mean[j]) * (data[i][j] - mean[j]);
        sd[j] = SQRT(sd[j] / N);
        if (sd[j] <= 0.1) sd[j] = 1;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) data[i][j] = (data[i][j] - mean[j]) / (SQRT((double)N) * sd[j]);
    for (int i = 0; i < M; i++) {
        corr[i][i] = 1;
        for (int j = i + 1; j < M; j++) {
            corr[i][j] = 0;
            for (int k = 0; k < N; k++) corr[i][j] += data[k][i] * data[k][j];
            corr[j][i] = corr[i][j];
        }
    }
}
