/* Rare executions that take much longer than most, which the figure (that of the fast windows) leaves out, told from interrupts,
   which do the same to a window: windows in a row, by ticks alone, in turns with chains, which only interrupts make longer. */
#define RARE_FOR 5e6    /* nanoseconds of such windows and chains beside no busy neighbour, and at most three times as many in all */
#define BLOCK 2e5       /* nanoseconds between two readings of the clock */
#define ASKED 2e4       /* nanoseconds of a window from which others' share of its time is asked for */
#define MUCH_LONGER 0.03 /* than the middle one, relative; or four times as much as a quarter of all takes longer */

typedef struct { int n; double added, squares; } longer; /* of n windows: sums of what the long ones take more than the middle one, relative */
static longer longer_of(double *ticks, int n, int without) { /* the longest so many */
    longer found = {n, 0, 0};
    qsort(ticks, (size_t)n, sizeof *ticks, by_value);
    double middle = n ? ticks[n / 2] : 0, least = n ? 4 * (ticks[3 * n / 4] / middle - 1) : 0;
    int from = n;
    while (from > n / 2 && ticks[from - 1] / middle - 1 > (least > MUCH_LONGER ? least : MUCH_LONGER)) from--;
    /* One or two that are much longer than all others are another program's, or the hypervisor's, and would hide the rest. */
    double most = n - from > 2 ? 2 * (ticks[n - 3] / middle - 1) : 1e9;
    for (int i = from; i < n - without; i++) {
        double more = ticks[i] / middle - 1;
        if (more > most) more = most;
        found.added += more, found.squares += more * more;
    }
    return found;
}
/* Ticks of one execution of a window, or of one pair of marks; 0 where a window reached none. Of a window that takes long, those of
   this thread alone: it would seldom count otherwise, and the longer the less. */
static double ticks_of_window(variant_function run, pk_context *pk, int long_one) {
    struct timespec from = {0}, to = {0};
    no_marks_yet(pk);
    pk->reports = pk->kept;
    if (long_one) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    uint64_t begin = ticks_before();
    run(pk);
    double ticks = (double)(ticks_after() - begin - clock_overhead);
    __asm__ volatile("cld" : : : "cc");
    if (long_one) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double inside = has_marks ? (pk->marked ? (double)pk->ticks / (double)pk->marked : 0) : ticks / (double)pk->steps;
    double own = long_one ? (1e9 * (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec)) / tick_ns : ticks;
    return own < ticks ? inside * own / ticks : inside;
}
/* What rare executions add to the windows, and interrupts to chains. `timed`: windows that were timed before, which count as well
   where a window takes long, and alone where there can be no others (`run` is NULL). */
static void answer_rare(variant_function run, pk_context *pk, double *timed, int timed_n) {
    static double windows[LARGEST], chains[LARGEST];
    int n = 0, c = 0, long_ones = timed_n > 0;
    double kept = 0, begun = (double)nanoseconds(), now = begun;
    while (kept < RARE_FOR && now - begun < 3 * RARE_FOR) {
        int n_before = n, c_before = c;
        double waiting = long_ones ? 0 : waited(), began, took = 0, chained = 0;
        mark before = mark_before();
        for (began = now = (double)nanoseconds(); now - began < BLOCK && n < LARGEST && c < LARGEST; now = (double)nanoseconds()) {
            double one = run ? ticks_of_window(run, pk, long_ones) : 0;
            if (one > 0) windows[n++] = one;
            took += (double)nanoseconds() - now;
            do {
                double ticks = (double)chain();
                chained += ticks;
                if (!long_ones || ticks * tick_ns < SWITCHED) chains[c++] = ticks;
            } while (chained * tick_ns < took / 4 && c < LARGEST);
        }
        mark after = mark_after();
        int alone = long_ones || waited() - waiting <= WAITED * (now - began);
        if (!alone || !is_steady(before, after) || !is_quiet(probe_level(before, after)))
            n = n_before, c = c_before;
        else
            kept += now - began;
        if (n == LARGEST || c == LARGEST) break;
        now = (double)nanoseconds();
    }
    longer code = longer_of(timed, timed_n, 0), more = longer_of(windows, n, 0);
    /* One chain that another program or the hypervisor met would hide all that there is. */
    longer interrupts = longer_of(chains, c, 1);
    fprintf(answers, "rare %d %d %.6g %.6g %d %.6g %.6g\n", !long_ones && run, code.n + more.n, code.added + more.added, code.squares + more.squares,
            interrupts.n, interrupts.added, interrupts.squares);
}
