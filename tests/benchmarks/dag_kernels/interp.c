enum { PUSH, ADD, MUL, DUP, SWAP, JNZ, DEC, POP, HALT };
int code[] = { PUSH, 0, PUSH, 400, DUP, PUSH, 3, MUL, PUSH, 7, ADD, POP, SWAP, PUSH, 5, ADD, SWAP, DEC, JNZ, 4, HALT };
volatile long out;
void kernel(void) {
  long stack[64];
long *sp = stack;
int *pc = code;
  for (;;) switch (*pc++) {
    case PUSH: *sp++ = *pc++; break;
    case ADD: sp--; sp[-1] += sp[0]; break;
    case MUL: sp--; sp[-1] *= sp[0]; break;
    case DUP: sp[0] = sp[-1]; sp++; break;
    case SWAP: { long t = sp[-1]; sp[-1] = sp[-2]; sp[-2] = t; break; }
    case DEC: sp[-1]--; break;
    case POP: sp--; break;
    case JNZ: if (sp[-1]) pc = code + *pc; else pc++; break;
    case HALT: out = sp[-2]; return;
  }
}
