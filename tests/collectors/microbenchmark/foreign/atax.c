/* y = A^T (A x), in the style of PolyBench/C. */
#include <stdio.h>
#include <polybench.h>
#define DATA_TYPE double
#define M SIZE
#define N SIZE

static void init_array(int m, int n, DATA_TYPE POLYBENCH_2D(A, M, N, m, n), DATA_TYPE POLYBENCH_1D(x, N, n)) {
    for (int i = 0; i < n; i++) x[i] = 1 + i / (DATA_TYPE)n;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) A[i][j] = (DATA_TYPE)((i + j) % n) / (5 * m);
}
static void print_array(int n, DATA_TYPE POLYBENCH_1D(y, N, n)) {
    POLYBENCH_DUMP_START;
    POLYBENCH_DUMP_BEGIN("y");
    for (int i = 0; i < n; i++) fprintf(POLYBENCH_DUMP_TARGET, "%0.2lf ", y[i]);
    POLYBENCH_DUMP_END("y");
    POLYBENCH_DUMP_FINISH;
}
static void kernel_atax(int m, int n, DATA_TYPE POLYBENCH_2D(A, M, N, m, n), DATA_TYPE POLYBENCH_1D(x, N, n),
                        DATA_TYPE POLYBENCH_1D(y, N, n), DATA_TYPE POLYBENCH_1D(tmp, M, m)) {
#pragma scop
    for (int i = 0; i < POLYBENCH_LOOP_BOUND(N, n); i++) y[i] = 0;
    for (int i = 0; i < POLYBENCH_LOOP_BOUND(M, m); i++) {
        tmp[i] = 0;
        for (int j = 0; j < POLYBENCH_LOOP_BOUND(N, n); j++) tmp[i] += A[i][j] * x[j];
        for (int j = 0; j < POLYBENCH_LOOP_BOUND(N, n); j++) y[j] += A[i][j] * tmp[i];
    }
#pragma endscop
}
int main(int argc, char **argv) {
    int m = M, n = N;
    POLYBENCH_2D_ARRAY_DECL(A, DATA_TYPE, M, N, m, n);
    POLYBENCH_1D_ARRAY_DECL(x, DATA_TYPE, N, n);
    POLYBENCH_1D_ARRAY_DECL(y, DATA_TYPE, N, n);
    POLYBENCH_1D_ARRAY_DECL(tmp, DATA_TYPE, M, m);
    init_array(m, n, POLYBENCH_ARRAY(A), POLYBENCH_ARRAY(x));
    polybench_start_instruments;
    kernel_atax(m, n, POLYBENCH_ARRAY(A), POLYBENCH_ARRAY(x), POLYBENCH_ARRAY(y), POLYBENCH_ARRAY(tmp));
    polybench_stop_instruments;
    polybench_print_instruments;
    polybench_prevent_dce(print_array(n, POLYBENCH_ARRAY(y)));
    POLYBENCH_FREE_ARRAY(A);
    POLYBENCH_FREE_ARRAY(x);
    POLYBENCH_FREE_ARRAY(y);
    POLYBENCH_FREE_ARRAY(tmp);
    return 0;
}
