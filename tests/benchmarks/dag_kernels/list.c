struct node { struct node *next;
long v; } pool[4096];
volatile long out;
static unsigned long s = 88172645463325252UL;
static unsigned long rnd(void) { s ^= s << 13; s ^= s >> 7; s ^= s << 17; return s; }
void setup(void) { int p[4096]; for (int i = 0; i < 4096; i++) p[i] = i; for (int i = 4095; i > 0; i--) { int j = rnd() % (i + 1), t = p[i]; p[i] = p[j]; p[j] = t; } for (int i = 0; i < 4096; i++) { pool[p[i]].next = i < 4095 ? &pool[p[i + 1]] : 0; pool[p[i]].v = i; } out = p[0]; }
long first;
void kernel(void) { long t = 0; for (struct node *n = &pool[0]; n; n = n->next) t += n->v; first = t; }
