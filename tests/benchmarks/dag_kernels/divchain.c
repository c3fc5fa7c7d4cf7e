volatile double out; double start = 1.7;
void kernel(void) { double x = start; for (int i = 0; i < 1000; i++) x = 1.0 + 3.0 / (x + 0.5); out = x; }
