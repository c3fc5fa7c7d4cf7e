// f8[1000]-1:2 1000
long f(const double *a, int n) { long s = 0; for (int i = 0; i < n; i++) s += a[i] > 0 && a[i] < 1; return s; }
