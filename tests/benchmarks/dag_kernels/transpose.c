#define N 256
double a[N][N], b[N][N];
void setup(void) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) a[i][j] = i + j; }
void kernel(void) { for (int i = 0; i < N; i++) for (int j = 0; j < N; j++) b[j][i] = a[i][j]; }
