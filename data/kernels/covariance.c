/* covariance matrix of M variables over N points */
#include "kernel.h"

#ifndef M
#define M 48
#endif
#ifndef N
#define N 60
#endif

static ALIGNED double data[N][M], cov[M][M], mean[M];
OUTPUT(cov)

EXPORT void setup(void) {
    FILL(data);
}

KERNEL void covariance(void) {
    for (int j = 0; j < M; j++) {
        mean[j] = 0;
        for (int i = 0; i < N; i++) mean[j] += data[i][j];
        mean[j] /= N;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) data[i][j] -= mean[j];
    for (int i = 0; i < M; i++)
        for (int j = i; j < M; j++) {
            cov[i][j] = 0;
            for (int k = 0; k < N; k++) cov[i][j] += data[k][i] * data[k][j];
            cov[i][j] /= N - 1;
            cov[j][i] = cov[i][j];
        }
}
