unsigned table[256]; unsigned char data[8192];
volatile unsigned out;
void setup(void) { for (unsigned i = 0; i < 256; i++) { unsigned c = i; for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1; table[i] = c; } for (int i = 0; i < 8192; i++) data[i] = i * 7 + (i >> 3); }
void kernel(void) { unsigned c = ~0u; for (int i = 0; i < 8192; i++) c = table[(c ^ data[i]) & 255] ^ (c >> 8); out = ~c; }
