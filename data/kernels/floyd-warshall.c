/* shortest paths between all pairs (int) */
#include "kernel.h"

#ifndef N
#define N 56
#endif

static ALIGNED int path[N][N];
OUTPUT(path)

EXPORT void setup(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) path[i][j] = (i + j) % 13 == 0 || (i + j) % 7 == 0 ? 999 : i * j % 7 + 1;
}

KERNEL void floyd_warshall(void) {
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                int through = path[i][k] + path[k][j];
                path[i][j] = path[i][j] < through ? path[i][j] : through;
            }
}
