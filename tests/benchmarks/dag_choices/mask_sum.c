// f8[1000]-1:1 1000
double f(const double *a, int n) { double s = 0; for (int i = 0; i < n; i++) s += a[i] > 0 ? 1.0 : 2.0; return s; }
