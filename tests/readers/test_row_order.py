"""Which row of a table belongs to which interval, run and place. All counts are generated: none was measured."""

import numpy as np
import pandas as pd
import pytest

import perfkit as pk
from perfkit.errors import FormatError
from perfkit.readers.row_order import begins_anew
from perfkit.readers.running_totals import Rows

EVENTS = ["cycles", "instructions", "cache-misses"]


def counts(n=30, seed=1):
    """Counts of n intervals of a second that rise and fall."""
    rng = np.random.default_rng(seed)
    each = {"cycles": rng.integers(10**6, 2 * 10**6, n), "instructions": rng.integers(10**6, 4 * 10**6, n)}
    return pd.DataFrame(each | {"cache-misses": rng.integers(100, 9000, n)})


def read(tmp_path, frame, **how):
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    return pk.read_samples(path, **how)


def totals(samples):
    return {str(k): float(v) for k, v in samples.table.groupby("event", observed=True)["count"].sum().items()}


def seconds(samples):
    return samples.intervals()["seconds"].sum()


def wide(n=30, seed=1, name="time_s", cumulative=False):
    frame = counts(n, seed)
    frame = frame.cumsum() if cumulative else frame
    frame.insert(0, name, np.arange(1, n + 1))
    return frame


def long(n=30, name="time_s", cumulative=False):
    frame = wide(n, name=name, cumulative=cumulative)
    return frame.melt(name, var_name="event", value_name="count").sort_values(name, kind="stable", ignore_index=True)


# ------------------------------------------------------------------ long tables


@pytest.mark.parametrize("name", ["time_s", "time", "t", "timestamp", "timestamp_ms", "seconds"])
@pytest.mark.parametrize("order", ["by time", "by event", "shuffled"])
def test_a_missing_row_of_a_long_table_shifts_no_other_count(tmp_path, name, order):
    rows = long(name=name)
    cut = rows.drop(rows.index[(rows[name] == 7) & (rows["event"] == "cache-misses")])
    cut = {"by time": cut, "by event": cut.sort_values(["event", name]), "shuffled": cut.sample(frac=1, random_state=2)}
    s = read(tmp_path, cut[order])
    table = s.table[s.table["event"] == "cache-misses"].sort_values("interval")
    assert table["interval"].tolist() == [i for i in range(30) if i != 6]
    truth = counts().drop(index=6)
    assert table["count"].tolist() == truth["cache-misses"].tolist()
    assert table["time"].tolist() == truth["cycles"].tolist()
    if name in ("time_s", "seconds"):
        assert seconds(s) == 30


def test_a_gap_that_nothing_places_is_refused(tmp_path):
    rows = long().drop(columns="time_s")
    assert read(tmp_path, rows).n_intervals == 30
    with pytest.raises(FormatError, match="no column tells which interval a row belongs to"):
        read(tmp_path, rows.drop(index=20))


def test_events_that_were_read_out_one_after_another_stay_together(tmp_path):
    rows = long()
    s = read(tmp_path, rows.assign(time_s=rows["time_s"] + np.arange(len(rows)) % 3 / 1000))
    assert totals(s) == counts().sum().to_dict()
    assert s.n_intervals == 30
    assert s.throughput() == pytest.approx(counts()["instructions"].sum() / counts()["cycles"].sum())


def test_two_counts_of_one_time_that_nothing_tells_apart_are_refused(tmp_path):
    rows = long()
    doubled = pd.concat([rows, rows.iloc[[5]].assign(count=1)], ignore_index=True).sort_values("time_s", kind="stable")
    with pytest.raises(FormatError, match="several counts at time_s"):
        read(tmp_path, doubled)


def test_time_stamps_of_a_long_table_with_processors_are_its_seconds(tmp_path):
    rows = pd.concat([long(name="timestamp_ms").assign(cpu=c) for c in (0, 1)]).sort_values("timestamp_ms")
    s = read(tmp_path, rows.assign(timestamp_ms=rows["timestamp_ms"] * 1000))
    assert s.table["place"].nunique() == 2
    assert set(s.table["seconds"]) == {1.0}


def test_a_clock_of_a_long_table_that_begins_anew_is_a_new_run(tmp_path):
    s = read(tmp_path, pd.concat([long(), long()], ignore_index=True))
    assert s.table["run"].nunique() == 2
    assert (s.n_intervals, seconds(s)) == (60, 60)


def test_numbers_of_intervals_that_begin_anew_are_a_new_run(tmp_path):
    s = read(tmp_path, pd.concat([long(name="interval"), long(name="interval")], ignore_index=True))
    assert (s.table["run"].nunique(), s.n_intervals) == (2, 60)
    assert s.events == ["cache-misses"]


def test_dates_of_a_long_table_are_its_seconds(tmp_path):
    rows = long(name="timestamp")
    rows["timestamp"] = pd.Timestamp("2026-01-05T10:00:00") + pd.to_timedelta(rows["timestamp"], unit="s")
    assert seconds(read(tmp_path, rows)) == 29


@pytest.mark.parametrize("asked", [None, True])
def test_running_totals_of_a_long_table_become_their_differences(tmp_path, asked):
    s = read(tmp_path, long(cumulative=True), cumulative=asked)
    assert totals(s) == counts()[1:].sum().to_dict()
    assert (s.n_intervals, seconds(s)) == (29, 29)
    untimed = read(tmp_path, long(cumulative=True).drop(columns="time_s"), cumulative=True)
    assert totals(untimed) == totals(s)


def test_totals_beside_a_missing_one_are_not_known(tmp_path):
    rows = long(cumulative=True)
    s = read(tmp_path, rows.drop(rows.index[(rows["time_s"] == 7) & (rows["event"] == "cache-misses")]))
    table = s.table[s.table["event"] == "cache-misses"].dropna(subset="count")
    assert table["count"].sum() == counts()["cache-misses"].drop([0, 6, 7]).sum()
    assert totals(s)["cycles"] == counts()["cycles"][1:].sum()


# ------------------------------------------------------------------ wide tables


@pytest.mark.parametrize("name", ["pid", "tid", "rank", "process", "container", "hostname", "cgroup"])
@pytest.mark.parametrize("asked", [None, True])
def test_running_totals_by_turns_are_told_apart(tmp_path, name, asked):
    words = {7: "web", 8: "db"} if name not in ("pid", "tid", "rank") else {7: 7, 8: 8}
    both = pd.concat([wide(seed=k, cumulative=True).assign(**{name: word}) for k, word in words.items()])
    truth = (counts(seed=7)[1:].sum() + counts(seed=8)[1:].sum()).to_dict()
    for rows in (both.sort_values("time_s", kind="stable"), both):  # row by row, and one block after another
        s = read(tmp_path, rows, cumulative=asked)
        assert totals(s) == truth
        assert s.table["place"].nunique() == 2
        assert seconds(s) == 58


def test_cores_of_several_sockets_are_told_apart(tmp_path):
    parts = [wide(seed=k, cumulative=True).assign(socket=k // 2, core=k % 2) for k in range(4)]
    s = read(tmp_path, pd.concat(parts).sort_values("time_s", kind="stable"))
    assert s.table["place"].nunique() == 4
    assert totals(s) == sum(counts(seed=k)[1:].sum() for k in range(4)).to_dict()


def test_processes_of_several_machines_are_told_apart(tmp_path):
    parts = [wide(seed=10 * h + p, cumulative=True).assign(hostname=f"n{h}", pid=p) for h in (1, 2) for p in (1, 2)]
    s = read(tmp_path, pd.concat(parts).sort_values("time_s", kind="stable"))
    assert sorted(s.table["place"].unique()) == ["n1 1", "n1 2", "n2 1", "n2 2"]
    assert totals(s)["cycles"] == sum(counts(seed=10 * h + p)["cycles"][1:].sum() for h in (1, 2) for p in (1, 2))


def test_processes_of_several_runs_stay_in_their_runs(tmp_path):
    parts = [wide(seed=10 * r + p).assign(run=f"run{r}", pid=p) for r in (1, 2) for p in (1, 2)]
    s = read(tmp_path, pd.concat([pd.concat(parts[i : i + 2]).sort_values("time_s", kind="stable") for i in (0, 2)]))
    assert sorted(set(zip(s.table["run"], s.table["place"], strict=True))) == [
        (f"run{r}", f"{p}") for r in (1, 2) for p in (1, 2)
    ]


def test_counts_of_rows_among_running_totals_stay_as_they_are(tmp_path):
    mixed = wide(cumulative=True).assign(**{"cache-misses": counts()["cache-misses"]})
    s = read(tmp_path, mixed)
    assert totals(s) == counts()[1:].sum().to_dict()
    assert any("count each row for itself, among running totals: cache-misses" in n for n in s.notes)


def test_totals_of_32_bits_that_begin_anew_are_refused(tmp_path):
    frame = counts().assign(cycles=counts()["cycles"] * 1000)
    turned = frame.cumsum().assign(cycles=frame["cycles"].cumsum() % 2**32)
    turned.insert(0, "time_s", np.arange(1, 31))
    for asked in (None, True):
        with pytest.raises(FormatError, match="32 bits that began anew"):
            read(tmp_path, turned, cumulative=asked)
    busy = frame.assign(cycles=np.where(np.arange(30) % 2, 100, 3 * 10**9) + np.arange(30) % 7, time_s=np.arange(1, 31))
    assert totals(read(tmp_path, busy))["cycles"] == busy["cycles"].sum()  # idle every other second, and no counter


@pytest.mark.parametrize("cumulative", [False, True])
def test_a_clock_that_begins_anew_is_a_new_run(tmp_path, cumulative):
    s = read(tmp_path, pd.concat([wide(20, 3, cumulative=cumulative), wide(20, 4, cumulative=cumulative)]))
    first = int(cumulative)
    assert s.table["run"].nunique() == 2
    assert seconds(s) == 2 * (20 - first)
    assert totals(s) == (counts(20, 3)[first:].sum() + counts(20, 4)[first:].sum()).to_dict()


def test_seconds_that_count_up_are_stamps_and_others_lengths(tmp_path):
    assert seconds(read(tmp_path, wide(name="seconds"))) == 30
    assert totals(read(tmp_path, wide(name="seconds", cumulative=True))) == counts()[1:].sum().to_dict()
    assert seconds(read(tmp_path, counts().assign(seconds=2.0))) == 60
    rising = 1 + np.arange(30) / 100
    assert seconds(read(tmp_path, counts().assign(seconds=rising))) == pytest.approx(rising.sum())


@pytest.mark.parametrize("lengths", [0.1 * 2.0 ** np.arange(8), 0.1 * np.arange(1, 9)])
def test_run_times_over_sizes_are_lengths(tmp_path, lengths):
    sizes = [*range(1, 9)] * 2
    s = read(tmp_path, counts(16).assign(size=sizes, time_s=[*lengths, *lengths * 1.1]))
    assert seconds(s) == pytest.approx(2.1 * lengths.sum())


@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize("backwards", [True, False])
def test_rows_out_of_the_order_of_their_clock_are_put_in_it(tmp_path, cumulative, backwards):
    rows = wide(cumulative=cumulative)
    s = read(tmp_path, rows[::-1] if backwards else rows.sample(frac=1, random_state=1))
    first = int(cumulative)
    assert seconds(s) == 30 - first
    assert totals(s) == counts()[first:].sum().to_dict()
    one = s.table[s.table["event"] == "cache-misses"]
    assert one["count"].tolist() == counts()["cache-misses"][first:].tolist()


@pytest.mark.parametrize(("name", "unit"), [("duration_us", 1e-6), ("interval_ms", 1e-3), ("period_us", 1e-6)])
def test_lengths_that_rise_are_lengths(tmp_path, name, unit):
    lengths = 100_007 + 7 * np.arange(30)
    assert seconds(read(tmp_path, counts().assign(**{name: lengths}))) == pytest.approx(lengths.sum() * unit)
    begun = 100 * np.arange(1, 31)  # since the beginning of the run
    assert seconds(read(tmp_path, counts().assign(**{name: begun}))) == pytest.approx(3000 * unit)


# ------------------------------------------------------------------ what sums up, compares or shows a moment


def turned(**columns):
    """A table with one row per event, and columns made of the counts of two runs."""
    a, b = (pd.Series(counts(1, seed).iloc[0]) for seed in (1, 2))
    more = pd.Series({"branch-misses": 40}), pd.Series({"branch-misses": 20})
    a, b = (pd.concat(x) for x in zip((a, b), more, strict=True))
    frame = pd.DataFrame({"event": a.index, **{n: make(a, b).to_numpy() for n, make in columns.items()}})
    return frame, a, b


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("speedup", lambda a, b: a / b),
        ("faster by", lambda a, b: a / b),  # by its values
        ("total", lambda a, b: a + b),
        ("both", lambda a, b: a + b),
        ("delta", lambda a, b: a - b),
        ("max", np.maximum),
        ("mean", lambda a, b: (a + b) / 2),
    ],
)
def test_what_sums_up_or_compares_runs_is_no_run(tmp_path, name, make):
    frame, a, b = turned(before=lambda a, _: a, after=lambda _, b: b, **{name: make})
    s = read(tmp_path, frame)
    assert sorted(s.table["run"].unique()) == ["after", "before"]
    assert totals(s) == (a + b).to_dict()
    assert any(f"left out: {name}" in n for n in s.notes)


def test_statistics_alone_give_the_mean_or_are_refused(tmp_path):
    frame, a, b = turned(min=np.minimum, max=np.maximum, mean=lambda a, b: (a + b) / 2, stddev=lambda a, _: a * 0 + 5)
    assert totals(read(tmp_path, frame)) == ((a + b) / 2).to_dict()
    with pytest.raises(FormatError, match="min, max sum up or compare runs"):
        read(tmp_path, frame.drop(columns="mean"))


@pytest.mark.parametrize("number", ["interval", "time_s", None])
@pytest.mark.parametrize("what", ["sum", "mean"])
@pytest.mark.parametrize("last", [True, False])
def test_an_unnamed_row_of_sums_or_means_is_no_row(tmp_path, number, what, last):
    summary = counts().agg(what).round().astype("int64").to_frame().T
    frame = pd.concat([counts(), summary] if last else [summary, counts()], ignore_index=True)
    if number is not None:
        frame.insert(0, number, np.arange(1, 32))
    s = read(tmp_path, frame)
    assert totals(s) == counts().sum().to_dict()
    nearly = frame.copy()
    nearly.loc[30 if last else 0, "cache-misses"] += 3
    assert read(tmp_path, nearly).n_intervals == 31


@pytest.mark.parametrize(
    ("name", "is_event"),
    [("temp", False), ("cpu_temp_c", False), ("power", False), ("power (W)", False), ("util", False), ("rss", False),
     ("bandwidth", False), ("mem_bw_gb/s", False), ("throughput", False), ("temporaries", True), ("power_ups", True),
     ("faults", True), ("bw_requests", True)],
)  # fmt: skip
def test_readings_of_a_moment_are_no_events(tmp_path, name, is_event):
    readings = counts(seed=9)["cache-misses"]
    s = read(tmp_path, counts().assign(**{name: readings}))
    assert s.events == ["cache-misses", *([name] if is_event else [])]
    s = read(tmp_path, wide().assign(**{name: readings}).melt("time_s", var_name="event", value_name="count"))
    assert s.events == ["cache-misses", *([name] if is_event else [])]


# ------------------------------------------------------------------ other dress of the same tables


@pytest.mark.parametrize("form", ["lines", "list", "indented", "blanks", "long lines"])
def test_records_and_columns_between_blanks_are_tables(tmp_path, form):
    frame = wide()
    if form == "blanks":
        text = frame.to_string(index=False)
    elif form == "long lines":
        text = long().to_json(orient="records", lines=True)
    else:
        text = frame.to_json(orient="records", lines=form == "lines", indent=2 if form == "indented" else None)
    path = tmp_path / "t.txt"
    path.write_text(text + "\n")
    s = pk.read_samples(path)
    assert totals(s) == counts().sum().to_dict()
    assert (s.n_intervals, seconds(s)) == (30, 30)
    path.write_text(text[:-9])
    with pytest.raises(FormatError):
        pk.read_samples(path)


@pytest.mark.parametrize(("second", "is_clock"), [(1, True), (3, True), (4, False)])
def test_a_clock_falls_to_where_it_began_or_two_steps_later(second, is_clock):
    clock = 10.0 * np.array([*range(1, 9), *range(second, second + 8)])  # 10 s a step
    anew = begins_anew(clock, Rows.of(np.zeros(16)))
    assert (anew is not None) == is_clock
    assert anew is None or np.flatnonzero(anew).tolist() == [8]
