/* C = alpha A B + beta C, in the style of PolyBench/C. */
#include <stdio.h>
#include <polybench.h>
#define DATA_TYPE double
#define NI SIZE
#define NJ SIZE
#define NK SIZE

static void init_array(int ni, int nj, int nk, DATA_TYPE POLYBENCH_2D(C, NI, NJ, ni, nj), DATA_TYPE POLYBENCH_2D(A, NI, NK, ni, nk),
                       DATA_TYPE POLYBENCH_2D(B, NK, NJ, nk, nj)) {
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) C[i][j] = (DATA_TYPE)((i * j + 1) % ni) / ni;
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nk; j++) A[i][j] = (DATA_TYPE)(i * (j + 1) % nk) / nk;
    for (int i = 0; i < nk; i++)
        for (int j = 0; j < nj; j++) B[i][j] = (DATA_TYPE)(i * (j + 2) % nj) / nj;
}
static void print_array(int ni, int nj, DATA_TYPE POLYBENCH_2D(C, NI, NJ, ni, nj)) {
    POLYBENCH_DUMP_START;
    POLYBENCH_DUMP_BEGIN("C");
    for (int i = 0; i < ni; i++)
        for (int j = 0; j < nj; j++) fprintf(POLYBENCH_DUMP_TARGET, "%0.2lf ", C[i][j]);
    POLYBENCH_DUMP_END("C");
    POLYBENCH_DUMP_FINISH;
}
static void kernel_gemm(int ni, int nj, int nk, DATA_TYPE alpha, DATA_TYPE beta, DATA_TYPE POLYBENCH_2D(C, NI, NJ, ni, nj),
                        DATA_TYPE POLYBENCH_2D(A, NI, NK, ni, nk), DATA_TYPE POLYBENCH_2D(B, NK, NJ, nk, nj)) {
#pragma scop
    for (int i = 0; i < POLYBENCH_LOOP_BOUND(NI, ni); i++) {
        for (int j = 0; j < POLYBENCH_LOOP_BOUND(NJ, nj); j++) C[i][j] *= beta;
        for (int k = 0; k < POLYBENCH_LOOP_BOUND(NK, nk); k++)
            for (int j = 0; j < POLYBENCH_LOOP_BOUND(NJ, nj); j++) C[i][j] += alpha * A[i][k] * B[k][j];
    }
#pragma endscop
}
int main(int argc, char **argv) {
    int ni = NI, nj = NJ, nk = NK;
    POLYBENCH_2D_ARRAY_DECL(C, DATA_TYPE, NI, NJ, ni, nj);
    POLYBENCH_2D_ARRAY_DECL(A, DATA_TYPE, NI, NK, ni, nk);
    POLYBENCH_2D_ARRAY_DECL(B, DATA_TYPE, NK, NJ, nk, nj);
    init_array(ni, nj, nk, POLYBENCH_ARRAY(C), POLYBENCH_ARRAY(A), POLYBENCH_ARRAY(B));
    polybench_start_instruments;
    kernel_gemm(ni, nj, nk, 1.5, 1.2, POLYBENCH_ARRAY(C), POLYBENCH_ARRAY(A), POLYBENCH_ARRAY(B));
    polybench_stop_instruments;
    polybench_print_instruments;
    polybench_prevent_dce(print_array(ni, nj, POLYBENCH_ARRAY(C)));
    POLYBENCH_FREE_ARRAY(C);
    POLYBENCH_FREE_ARRAY(A);
    POLYBENCH_FREE_ARRAY(B);
    return 0;
}
