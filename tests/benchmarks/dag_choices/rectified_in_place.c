// f8[1000]-1:1 1000
void f(double *a, int n) { for (int i = 0; i < n; i++) if (a[i] < 0) a[i] = 0; }
