/* Rare executions that take much longer than most, which the figure (that of the fast windows) leaves out, told from interrupts,
   which do the same to a window: windows in a row, by ticks alone, in turns with chains, which only interrupts make longer. */
#define RARE_FOR 5e6    /* nanoseconds of such windows and chains beside no busy neighbour, and at most three times as many in all, */
#define RARE_OF 300     /* and of so many windows more, */
#define LONG_FOR 4e7    /* but no longer */
#define BLOCK 2e5       /* nanoseconds between two readings of the clock */
#define MUCH_LONGER 0.03 /* than the middle one, relative; or four times as much as a quarter of all takes longer */

#define LONGEST 3 /* told one by one: they may be another program's, or the hypervisor's, which the other passes tell */
typedef struct { int n; double added, squares, longest[LONGEST]; } longer; /* of n windows: sums of what the long ones take more than the middle one, relative, but the longest */
static longer longer_of(double *ticks, int n) {
    longer found = {.n = n};
    qsort(ticks, (size_t)n, sizeof *ticks, by_value);
    double middle = n ? ticks[n / 2] : 0, least = n ? 4 * (ticks[3 * n / 4] / middle - 1) : 0;
    for (int i = n - 1; i >= 0 && i > n / 2 && ticks[i] / middle - 1 > (least > MUCH_LONGER ? least : MUCH_LONGER); i--) {
        double more = ticks[i] / middle - 1;
        if (n - i <= LONGEST) found.longest[n - i - 1] = more;
        else found.added += more, found.squares += more * more;
    }
    return found;
}
static void answer_longer(longer of) {
    fprintf(answers, " %d %.6g %.6g", of.n, of.added, of.squares);
    for (int i = 0; i < LONGEST; i++) fprintf(answers, " %.6g", of.longest[i]);
}
/* Cycles of an execution of these windows, by the clock rate beside them: what was settled is of the first ones that were looked
   at, and need not be what comes later (a table that was filled, phases of many executions). */
static double later[LARGEST];
static int later_n;
static void take_later(const double *ticks, int n, double rate, const pk_context *pk) {
    double cycles = fenced ? bias_of(APART).middle + (double)(pk->steps - 1) * bias_of(FENCE).middle : bias_of(WINDOW).middle;
    double added = has_marks ? clock_overhead + bias_of(MARKS).middle / rate : cycles / rate / (double)pk->steps;
    double pairs = has_marks && executed > 0 ? reached / executed : 1;
    for (int i = 0; i < n && later_n < LARGEST; i++) later[later_n++] = (ticks[i] - added) * rate * pairs;
}
static void answer_later(void) {
    int kept = later_n - (later_n + 29) / 30; /* interrupts may have met the others */
    double sum = 0;
    if (later_n < 20) return;
    qsort(later, (size_t)later_n, sizeof *later, by_value);
    for (int i = 0; i < kept; i++) sum += later[i];
    fprintf(answers, "later %.6g\n", sum / kept);
}
/* Ticks of one execution of a window, or of one pair of marks; 0 where a window reached none. Of a window that takes long, without
   those that others had: it would seldom count otherwise, and the longer the less. */
static double ticks_of_window(variant_function run, pk_context *pk, int long_one) {
    no_marks_yet(pk);
    pk->pk_reports = pk->pk_kept;
    double waiting = long_one ? waited() : 0;
    uint64_t begin = ticks_before();
    run(pk);
    double ticks = (double)(ticks_after() - begin - clock_overhead);
    tidy_up();
    double inside = has_marks ? (pk->pk_marked ? (double)pk->pk_ticks / (double)pk->pk_marked : 0) : ticks / (double)pk->steps;
    double own = long_one ? ticks - (waited() - waiting) / tick_ns : ticks;
    return own < ticks ? inside * own / ticks : inside;
}
/* What rare executions add to the windows, and interrupts to chains. `timed`: windows that were timed before, which count as well
   where a window takes long, and alone where there can be no others (`run` is NULL). */
static void answer_rare(variant_function run, pk_context *pk, double window_ns, double *timed, int timed_n) {
    static double windows[LARGEST], chains[LARGEST];
    int n = 0, c = 0, long_ones = timed_n > 0;
    for (; n < timed_n; n++) windows[n] = timed[n];
    double kept = 0, begun = (double)nanoseconds(), now = begun, length = RARE_FOR + (run ? RARE_OF * window_ns : 0);
    if (length > LONG_FOR) length = LONG_FOR;
    later_n = 0;
    while (kept < length && now - begun < 3 * length) {
        int n_before = n, c_before = c;
        double waiting = long_ones ? 0 : waited(), began, took = 0, chained = 0;
        mark before = mark_before();
        for (began = now = (double)nanoseconds(); now - began < BLOCK && n < LARGEST && c < LARGEST; now = (double)nanoseconds()) {
            double one = run ? ticks_of_window(run, pk, long_ones) : 0;
            if (one > 0) windows[n++] = one;
            if (run) of_experiment += (double)pk->steps;
            took += (double)nanoseconds() - now;
            do {
                double ticks = (double)chain();
                chained += ticks;
                if (!long_ones || ticks * tick_ns < SWITCHED) chains[c++] = ticks;
            } while (chained * tick_ns < took / (long_ones ? 16 : 4) && c < LARGEST);
        }
        mark after = mark_after();
        int alone = long_ones || waited() - waiting <= WAITED * (now - began), steady = is_steady(before, after);
        /* The longer a window, the more often the clock's rate changes in it, which ticks do not ask for. */
        if (!alone || !(long_ones || steady) || !is_quiet(probe_level(before, after))) {
            n = n_before, c = c_before;
        } else {
            if (steady) take_later(windows + n_before, n - n_before, cycles_a_tick(before, after), pk);
            kept += now - began;
        }
        if (n == LARGEST || c == LARGEST) break;
        now = (double)nanoseconds();
    }
    fprintf(answers, "rare %d", !long_ones && run);
    answer_longer(longer_of(windows, n)), answer_longer(longer_of(chains, c));
    fprintf(answers, "\n");
    answer_later();
}
