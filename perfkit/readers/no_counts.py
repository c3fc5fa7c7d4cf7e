"""Outputs of common tools that are recognised and hold no counts over intervals: each is refused by its name.

A reader that guessed at them would make events of ratios, times and addresses.
"""

import re
from typing import NoReturn

from perfkit.errors import FormatError
from perfkit.readers.open import Opened
from perfkit.readers.report import Report

NAME = "no-counts"
TITLE = "outputs without counts, refused by name"

# Of perf stat --metric-only; a table with ratios beside counts of time or work is none.
_METRICS = (
    r"\A(?:#[^\n]*\n|[ \t\r]*\n)*(?![^\n]*(?<![^,;\t])(?:cpu-)?(?:cycles|instructions)(?::\w+)?[ ]*[,;\t])"
    r"[^\n]*\b(?:insn per cycle|of all branches|tma_\w+|CPUs utilized|stalled cycles per insn)"
    r"[^\n]*([,;\t])[ ]*\r?\n[^\n]*\d\1[ ]*\r?(?:\n|\Z)"
)
_STAT = "Count the events with `perf stat -I 100 -e cycles,instructions,...`."
_JMH = (
    "JMH's perfnorm divides by operations; -prof perf prints perf's counts, which perfkit reads: give all of that "
    "output. " + _STAT
)
_CALIPER = (
    "Write a list of records, exclusive counts of each region, with `cali-query -j FILE.cali`, and say which are "
    "cycles and instructions: --time-event papi.PAPI_TOT_CYC --work-event papi.PAPI_TOT_INS."
)
_FIGURE = r"[+-]?\d[\d.]*(?:[eE][+-]?\d+)?"
# What the beginning looks like (a regular expression over all of it), what it is, and what to do instead.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r'\A\s*\{[\s\S]*"benchmarks"[\s\S]*"(?:runs|warmups)"[\s\S]*"(?:values|warmups|metadata)"',
        "pyperf's JSON: times of benchmarks, no counts of events",
        _STAT,
    ),
    (
        r"(?m)\A(?:#.*\n|\s*\n)*\s*\S.{0,40}?\s+\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?\d+\.\d{3,}:\s+\d*\s*\S+:",
        "`perf script`: single samples of a profile, no counts over intervals",
        "`perf stat` counts; of a recorded profile, `perf report` shows where its samples fell. " + _STAT,
    ),
    (
        r"(?m)^# (?:Overhead|Children)\s.*(?:Command|Shared Object|Symbol)|^# Samples: .* of events? ",
        "`perf report`: shares of a profile's samples, no counts over intervals",
        _STAT,
    ),
    (r"\A\s*comm,tid,time,event", "fields of `perf script`: single samples of a profile, no counts", _STAT),
    (
        r"\A[^\n]*AMDuProfPcm|\A\s*AMDuProfPcm",
        "AMDuProfPcm's table of metrics: ratios and rates, no counts",
        _STAT,
    ),
    (
        r"(?m)\A[^\n]*\b(?:System|Core\s?\d+ \(Socket \d+\)|Socket ?\d+)[^\n]*\n[^\n]*\b(?:EXEC|IPC)\b[^\n]*$",
        "Intel PCM's table of metrics: shares, rates and rounded counts of the whole machine",
        "Use `pcm-core -e ...`' events with `perf stat -a -I 1000 -e ...` instead. " + _STAT,
    ),
    (
        r"\A\s*Hierarchy Level[,\t;]Metric Name[,\t;]Metric Value",
        "VTune's summary: a table of metrics (ratios and times), no counts over intervals",
        "Export the counts: vtune -report hw-events -format csv.",
    ),
    (
        r"\A\s*run,(?:cpu,|level,)*stage,group,metric,value,units",
        "Arm topdown-tool's table of metrics (ratios: percent of slots, per thousand instructions), no counts",
        "Count its events with `perf stat -I 100 -e ...` (topdown-tool --dump-events lists them).",
    ),
    (
        r"(?m)\A(?:[A-Za-z][\w.:/ ]*: -?\d+(?:\.\d+)?\s*\n){2,}\s*\Z",
        "nanoBench's output: averages of one code sequence per repetition, no counts over intervals",
        "Ask `perfkit asm` what an instruction costs. " + _STAT,
    ),
    (
        r"\*\* Running group [\w-]+ :",
        "uarch-bench's table: averages per operation, no counts over intervals",
        _STAT,
    ),
    (
        _METRICS,
        "`perf stat --metric-only -x`: ratios and no counts",
        "Measure again without --metric-only.",
    ),
    (
        r"\A(?:\s*\d+\.\d{9},(?:-?\d+\.\d+,)+,*\s*\n?)+\Z",
        "`perf stat --metric-only -x`: ratios without names and no counts",
        "Measure again without --metric-only.",
    ),
    (
        r'\A\s*\{"(?:interval"\s*:\s*[\d.]+,|(?:(?:cpu|core|die|socket)".*")?(?:GHz|insn per cycle)")(?!.*counter-v)',
        "`perf stat --metric-only -j`: ratios and no counts",
        "Measure again without --metric-only.",
    ),
    (
        r"(?m)^[ \t]*(?:retiring[ \t]+bad speculation[ \t]+frontend bound|(?:%[ \t]+tma_\w+[ \t]*){2,}$)",
        "`perf stat --topdown`: percentages and no counts",
        "Count slots and topdown-* events (or -M TopdownL1) with `perf stat -I 100 -x,`.",
    ),
    (
        r"(?m)^[ \t]*Percent[ \t]*\|[ \t]*Source code",
        "`perf annotate`: shares of a profile's samples, no counts over intervals",
        _STAT,
    ),
    (
        r"(?m)\A(?:#.*\n|\s*\n)*[A-Z]\w*(?:/\w+)*[ \t]+[A-Z]\w+_\w+(?:\.\w+)*[ \t]+% (?:Slots|Clocks|\w+)[ \t]+[\d.]+",
        "toplev's text: percentages for people to read",
        "Let toplev write CSV (-x, -o FILE), with --nodes +SLOTS,+CLKS,+Instructions.",
    ),
    (
        r"(?m)\A(?:.*\n){0,20}?\s*Time ?\(%\)(?:[,;\t]\"?| +)Total Time",
        "Nsight Systems' summary: times of kernels or calls, no counts of events",
        "Count with Nsight Compute: ncu --csv --page raw --metrics sm__cycles_elapsed.max,smsp__inst_executed.sum,...",
    ),
    (
        r"\A(?:\s*command,mean,stddev,|\s*\{\s*\"results\"\s*:\s*\[\s*\{\s*\"command\")",
        "hyperfine's export: times of commands, no counts of events",
        _STAT,
    ),
    (
        r'\A\s*"Benchmark","Mode","Threads"|\A\s*\[\s*\{\s*"jmhVersion"',
        "JMH's table: scores per operation, no counts over intervals",
        _JMH,
    ),
    (
        r"(?m)^[^\n]*Mem Read \(MB/s\)",
        "pcm-memory's table: bandwidths, no counts of events",
        _STAT,
    ),
    (
        r"\A(?:==\d+==[^\n]*\n)*\"?Device\"?,\"?Kernel\"?,\"?Invocations\"?,",
        "nvprof's table: metrics of kernels, or events as sums of many launches",
        "Use Nsight Compute: ncu --csv --page raw.",
    ),
    (
        r"\A\s*Function[,;\t^]CPU Time\b",
        "VTune's hotspots: times of functions, no counts of events",
        "Export the counts: vtune -report hw-events -format csv.",
    ),
    (
        r"(?m)\A(?:#.*\n|\s*\n)*(?:# (?:HELP|TYPE) |[a-z_]\w*\{[^}\n]*\} [\d.]+)",
        "Prometheus' text format: one reading of each counter, and no intervals between",
        "Export a query over time as CSV: a column of time stamps, and one per counter.",
    ),
    (
        r"(?m)\A(?:# callgrind format|(?:version|creator|pid|cmd|part|desc|\s*)[^\n]*\n)[\s\S]{0,4000}^positions:",
        "callgrind's output, in which calls hold the costs of what they call",
        "Run the same program with valgrind --tool=cachegrind --cache-sim=yes --branch-sim=yes.",
    ),
    (
        r"(?m)\A\s*(?:papi_command_line .*\n[\s\S]{0,600}^)?(?:Successfully added: PAPI_|PAPI_\w+ : +)",
        "the output of papi_command_line: one count of each event that it made itself",
        _STAT,
    ),
    (
        r"(?m)^-- Cachegrind profile|^(?:I +refs|Events recorded) *: +\w.*\n[\s\S]*(?:PROGRAM TOTALS|file:function)",
        "cg_annotate's text: counts and shares for people to read",
        "Give the file it was made from (cachegrind.out.PID).",
    ),
    (
        r"(?m)\A(?:Attaching \d+ probes?\.*\n|\^C\n?|\s*\n)*@\w*(?:\[[^\n]*\])?: ?\n?-?[\d\[(]",
        "bpftrace's maps: one reading of each, and no intervals between",
        "Print them in intervals as CSV, a line each with the time (`interval:s:1 { printf(...) }`), or "
        + _STAT[0].lower()
        + _STAT[1:],
    ),
    (
        r"(?m)^\s*Maximum resident set size \(kbytes\): \d+",
        "`time -v`: times and memory, no counts of hardware events",
        _STAT,
    ),
    (
        r"(?m)^[ \t]*(?:(?:Package|Node|Die|Core|CPU|Time_Of_Day_Seconds|usec)[ \t]+)*Avg_MHz\b[^\n]*\bBzy_MHz\b",
        "turbostat's table: frequencies, shares and watts, no counts of events",
        _STAT,
    ),
    (
        r"(?m)\A(?:\s*\n)*Linux \S+ \([^)\n]*\)\s[^\n]*\bCPU\)[ \t]*$",
        "sysstat's report (sar, mpstat, iostat, pidstat): shares and rates of the system, no counts of hardware events",
        _STAT,
    ),
    (
        r"(?m)^[ \t]*Core \(SKT\)[ \t]*\|",
        "Intel PCM's table of metrics: shares, rates and rounded counts of the whole machine",
        _STAT,
    ),
    (
        r"(?m)^[ \t]*CORE[ \t]+(?:RMID[ \t]+)?IPC[ \t]+MISSES[ \t]+LLC\[KB\]",
        "pqos's table: ratios and rounded counts, no instructions or cycles",
        _STAT,
    ),
    (
        r"(?m)\A(?:(?!\d).*\n){0,40}[ \t]*Elapsed Time: [\d.,]+ ?s\b",
        "VTune's summary: a table of metrics (ratios and times), no counts over intervals",
        "Export the counts: vtune -report hw-events -format csv.",
    ),
    (
        r"(?m)^S\d+-C\d+(?:-T\d)?[ \t]*[A-Z][\w/]*[ \t]+[A-Z]\w+(?:\.\w+)*:[ \t]+[\d.]+%",
        "toplev's text: percentages for people to read",
        "Let toplev write CSV (-x, -o FILE), with --nodes +SLOTS,+CLKS,+Instructions.",
    ),
    (
        r"(?m)\A\s*(?:[\w.:]+: -?\d+\.\d\d \(-?\d+\)[ \t]*\n)+\s*\Z",
        "nanoBench's output: averages of one code sequence per repetition, no counts over intervals",
        "Ask `perfkit asm` what an instruction costs. " + _STAT,
    ),
    (
        (
            r"(?m)^Benchmark\s+(?:\(\w+\)\s+)*Mode\s+Cnt\s+Score\b|\A# JMH version: |"
            r"^\S+:\W?\w[\w.\-]*[ \t]+\w+[ \t].*[ \t]#/op[ \t]*$"
        ),
        "JMH's table: scores per operation, no counts over intervals",
        _JMH,
    ),
    (
        r"(?m)^Benchmark\S+[ \t]+\d+[ \t]+[\d.]+ ns/op\b",
        "`go test -bench`: averages per operation, no counts over intervals",
        _STAT,
    ),
    (
        r"(?m)^[ \t]*(?:.*[ \t])?\w+:[ \t]+\[[\d.]+(?: \S+)? [\d.]+(?: \S+)? [\d.]+(?: \S+)?\][ \t]*$",
        "criterion's report: an estimate and its confidence interval, no counts over intervals",
        _STAT,
    ),
    (
        r"(?m)^Benchmark(?: \d+)?: .*\n[ \t]*Time \(",
        "hyperfine's report: times of commands, no counts of events",
        _STAT,
    ),
    (
        r"\A\s*\| Command \| Mean \[",
        "hyperfine's export: times of commands, no counts of events",
        _STAT,
    ),
    (
        r"(?m)^[ \t]*Estimated Cycles:[ \t]+\d",
        "iai's report: cachegrind's counts of whole benchmarks and cycles estimated from them",
        "Give the file that cachegrind wrote (cachegrind.out...), or measure. " + _STAT,
    ),
    (
        r"(?m)^==\d+== (?:I +refs|D +refs|LL +refs): +[\d,]+",
        "valgrind's summary: one total of each of cachegrind's counts, no cycles",
        "Give the file that cachegrind wrote (cachegrind.out.PID).",
    ),
    (
        r"(?m)^[-+][ \t]+[\d.,]+[ \t]+(?:cpu-)?(?:cycles|instructions)\b",
        "a difference of two outputs of perf stat, line by line",
        "Give the two outputs, a file each.",
    ),
    (
        r"(?m)^-+ Begin Simulation Statistics -+$",
        "gem5's statistics: counts, ratios and rates of a simulator in one list",
        "Choose the counts by name (simInsts, numCycles, ...) and write them as CSV, a row for each dump.",
    ),
    (
        r"(?m)^(?:Finished )?CPU \d+ (?:cumulative IPC|instructions): ",
        "ChampSim's report: totals of a simulated run, no counts over intervals",
        "Write instructions, cycles and misses as CSV, a row for each heartbeat.",
    ),
    (
        r"(?m)\AIterations: +\d+\nInstructions: +\d+\nTotal Cycles: +\d+",
        "llvm-mca's report: a simulated block, no counts over intervals",
        "Ask `perfkit asm` about the block. " + _STAT,
    ),
    (
        r"(?m)^[ \t]*Metric Name[ \t]+Metric Unit[ \t]+Metric Value[ \t]*$",
        "Nsight Compute's text: metrics of kernels for people to read",
        "Let it write CSV: ncu --csv --page raw.",
    ),
    (
        r"(?m)^Event counts \((?:actual|scaled)\) for ",
        "ocount's tables (OProfile), for people to read",
        _STAT,
    ),
    (
        r"(?m)^Benchmark \d+ \(\d+ runs\): .*\n[ \t]*measurement[ \t]+mean",
        "poop's table: rounded means of runs, no counts over intervals",
        _STAT,
    ),
    (
        r"(?m)^-{9,}\nBenchmark[ \t]+Time[ \t]+CPU[ \t]+Iterations\b",
        "google-benchmark's table for people to read: times, and counters with three digits",
        "Let it write JSON: --benchmark_perf_counters=CYCLES,INSTRUCTIONS --benchmark_out_format=json ...",
    ),
    (
        r"(?m)^Cache simulation results:\nCore #\d+",
        "the report of DynamoRIO's cache simulator: hits and misses of a simulated run, no cycles",
        _STAT,
    ),
    (
        r"(?m)\A(?:#.*\n)*#[ \t]*(?:Mix output version|Intel\(R\) SDE version)",
        "Intel SDE's mix: executed instructions by kind, no cycles",
        _STAT,
    ),
    (
        r"(?m)^sim_num_insn[ \t]+\d+ #",
        "SimpleScalar's statistics: counts, ratios and rates of a simulator in one list",
        "Write sim_cycle, sim_num_insn and the misses as CSV, a row for each run.",
    ),
    (
        r"(?m)^PID[ \t]+NAME[ \t]+CPU[ \t]+REFERENCE[ \t]+MISS[ \t]+HIT%",
        "bcc's llcstat: sampled references and misses of processes, no cycles or instructions",
        _STAT,
    ),
    (
        r"(?m)\A(?:[ \t]*[\d,.]+ \S+ \([\d.]+% scaling, ena=[\d,.]+, run=[\d,.]+\)[ \t]*\n)+",
        "the output of libpfm's example `task`: one total of each event",
        _STAT,
    ),
    (
        r"(?m)^# CORES: \d[\d|]*[ \t]*\n(?:[ \t]*\n)*\d+ \d+ \d+ [\d.]+ ",
        "likwid-perfctr's old timeline (-t): metrics of a group without their names, no counts",
        "Use likwid 4.1 or later, whose lines begin with the names, or " + _STAT[0].lower() + _STAT[1:],
    ),
    (
        r"(?m)^\|[ \t]*Method[ \t]*\|(?:.*\|)?[ \t]*Mean[ \t]*\|.*\n\|[ \t]*[-:]",
        "BenchmarkDotNet's table: means per operation, no counts over intervals",
        _STAT,
    ),
    (
        r"\A\s*List of (?:all )?pre-defined events \(to be used in -e",
        "`perf list`: names of events",
        _STAT,
    ),
    (
        r"(?m)\A# (?:[ps]/\S+[ \t]*)+$",
        "pmcstat's table (FreeBSD)",
        "Counts of one process become CSV by sed -E '1!{/^#/d;}; s/^# //; s#(^| )p/#\\1#g; s/^ +//; s/ +/,/g'.",
    ),
    (
        r"(?m)\ACrayPat/X: |^Table \d+:  +(?:Program HW Performance Counter Data|Profile by )",
        "CrayPat's report: totals of a program and rates, no counts over intervals",
        _STAT,
    ),
    (
        r"(?m)^PAPI_\w+:Sum \([IE]\)|^=+ hpcprof",
        "HPCToolkit's text: shares of a profile's samples, no counts over intervals",
        _STAT,
    ),
    (
        r"\A\d+ templated_functions",
        "TAU's profile: totals of functions, of one event in each file",
        "Let pprof or paraprof write CSV: a row for each function, a column for each event, exclusive.",
    ),
    (
        r"(?m)^(?:NODE \d+;CONTEXT \d+;THREAD \d+|FUNCTION SUMMARY \(\w+\)):[ \t]*\n-+\n%Time[ \t]+Exclusive\b",
        "pprof's text of a TAU profile: rounded times or counts of functions, of one metric",
        "Let paraprof write CSV: a row for each function, a column for each event, exclusive.",
    ),
    (
        r"(?m)^[ \t]*r[ \t]+b[ \t]+(?:w[ \t]+)?(?:swpd|avm|active)[ \t]+fre",
        "vmstat's table: memory, rates and shares of the system, no counts of hardware events",
        _STAT,
    ),
    (
        r"\A(?:[ \t]*\d+ K total memory\n|Mach Virtual Memory Statistics)",
        "vmstat's totals since the machine was started, no counts of hardware events",
        _STAT,
    ),
    (
        r"(?m)^[ \t]*Core[ \t]*\|[ \t]*IPC[ \t]*\|[ \t]*Instructions\b",
        "pcm-core's table for people to read: counts rounded to thousands or millions",
        "Let it write CSV (pcm-core -csv=FILE -e ...), or use its events with `perf stat -a -A -x, -I 1000 -e ...`.",
    ),
    (
        r"(?m)\A(?:Version Info:.*\n(?:.*\n){0,400}?)?=+\r?\n[A-Z][\w.:]+[\t;][\d,]{7,}[\t;]",
        "Intel EMON's output: a row for each event, with a count for each processor and no line per interval",
        "Let EDP (or pyedp) make its table of the system by time, with the events, and give that CSV.",
    ),
    (
        r"(?m)^[ \t]*%[ \t]+cumulative[ \t]+self\b|^File: .*\nType: \w+\n(?:.*\n){0,3}Showing nodes accounting for ",
        "a profile's flat list (gprof, Go's pprof): times of functions, no counts of events",
        _STAT,
    ),
    (
        r"\A(?:[^\s;,]+(?:;[^;\n]+)+ \d+\r?\n){2}",
        "collapsed stacks (flame graphs): samples of a profile by call chain, no counts over intervals",
        _STAT,
    ),
    (
        r'\A\s*\{\s*(?:"\$schema"\s*:\s*"[^"]*speedscope|"traceEvents"\s*:)',
        "a trace for a viewer (speedscope, Chrome): times of functions, no counts of events",
        _STAT,
    ),
    (
        r"\A(?:% time +seconds +usecs/call|top - \d\d:|\s*PID +%CPU|\"\(PDH-CSV |[^\n]*\butilization\.gpu\b|#Entity +)",
        "a monitor's table (strace -c, top, ps, typeperf, nvidia-smi, dcgmi): times, shares and rates, no counts",
        _STAT,
    ),
    (
        r"(?m)^Cycle Clock:\s+\d+\r?$",
        "likwid-bench's output: totals of one kernel",
        "Run it under likwid-perfctr -m, or `perf stat`.",
    ),
    (
        r"(?m)\A\s*time +cpu +event +(?:pic0|\w+ +\w+ +#)",
        "the table of Solaris' cpustat, whose lines hold words that its header does not name",
        "Write CSV with the events' names: a line time_s,cpu,cycles,instructions, and the rows without `tick`.",
    ),
    (
        r"(?m)\A#Paraver \(|\ADEFAULT_OPTIONS\n(?:.*\n){1,40}?EVENT_TYPE\n",
        "a trace of Extrae (Paraver's .prv or .pcf): single events of threads, no counts over intervals",
        "Let Paraver write histograms of the counters as CSV: a row for each burst, a column for each event.",
    ),
    (
        r"(?m)\A=+\n +Trace Event Information\n=+\n",
        "`perf c2c report`: samples of memory accesses by kind, no counts over intervals",
        _STAT,
    ),
    (
        r"\A# PID, TID, IP, ADDR, ",
        "`perf mem report -D`: single samples of memory accesses, no counts over intervals",
        _STAT,
    ),
    (
        r'\A\s*\{\s*"results"\s*:\s*\[\s*\{\s*"title"|(?m:^\|[ \t]*(?:relative \|[ \t]*)?ns/\w+ \|[ \t]*\w+/s \|)',
        "nanobench's results: medians and averages per operation, no counts over intervals",
        _STAT,
    ),
    (
        r"\A# ?hostname;interval;timestamp;",
        "sadf's table of sysstat: shares and rates of the system, no counts of hardware events",
        _STAT,
    ),
    (
        r"(?m)\ABeginHeader\r?$",
        "xperf's dump of a Windows trace: single events, no counts over intervals",
        "Let Windows Performance Analyzer export a table of counters as CSV, a row for each interval.",
    ),
    (
        r"\A(?=[^\n]*\b(?:New )?Process\b)[^\n]*(?:\(in view\)|% Weight\b)",
        "Windows Performance Analyzer's table: samples or switches of threads by weight, no counts over intervals",
        "Where the trace has counters, export what each thread counted until it was switched out, without weights.",
    ),
    (r"\A__rec=", "Caliper's own file (.cali): records that refer to one another", _CALIPER),
    (
        r'\A\s*\{\s*"data"\s*:\s*\[[\s\S]*"column_metadata"',
        "Caliper's json-split: rows of numbers, and the names of their columns behind them",
        _CALIPER,
    ),
    (
        r"\APath\s[^\n]*(?:papi\.|Time \([EI]\)|Min time/rank)",
        "Caliper's tree of regions, of which one holds others",
        _CALIPER,
    ),
    (
        r'\A"Dstat [\d.]+ CSV output"',
        "dstat's table: shares and rates of the system, no counts of hardware events",
        _STAT,
    ),
    (
        r'\A\s*\{\s*"status"\s*:\s*"success"\s*,\s*"data"\s*:\s*\{\s*"result',
        "the answer of Prometheus to a query: series of readings, of which nothing tells counts from totals and rates",
        "Export the query as CSV: a column of time stamps (time_s), one per counter, named as perf names events.",
    ),
    (
        r"\A(?:[\w-]+(?:\.[\w-]+)+ -?\d[\d.eE+]* \d{9,10}\r?\n)+",
        "Graphite's lines (path, value, time): readings, of which nothing tells counts from totals and rates",
        "Write a table: a column of time stamps (time_s), one per counter, named as perf names events.",
    ),
    (
        r"\A(?:PUTVAL \S+ |\"PUTVAL |epoch,value\r?\n)",
        "collectd's values: readings of one counter each, of which nothing tells counts from totals and rates",
        "Write a table: a column of time stamps (time_s), one per counter, named as perf names events.",
    ),
    (
        r"\A(?:[\w.:-]+:-?\d[\d.]*\|(?:c|g|ms|h|s|d)\b[^\n]*\n)+",
        "statsd's lines: increments and readings that belong to no interval",
        "Write a table: a row for each interval, a column for each counter.",
    ),
    (
        rf"\A(?:[ \t]*{_FIGURE}(?:(?:[ \t]*[,;|][ \t]*|[ \t]+){_FIGURE})+[ \t]*\r?(?:\n|\Z)){{3}}",
        "rows of numbers without a header: nothing says what a column counts",
        "Write a first line with the columns' names, such as time_s,cycles,instructions,cache-misses.",
    ),
    (
        r"\A\s*<\?xml[\s\S]{0,400}<trace-query-result",
        "xctrace's XML export of Instruments",
        "Export a table of counters as CSV, one column per event.",
    ),
    (
        r"\A\s*<(?:\?xml|!DOCTYPE|html)",
        "XML or HTML, no dump of counts",
        "Export a table as CSV.",
    ),
)
_PATTERNS = tuple((re.compile(p), what, instead) for p, what, instead in _KNOWN)
_LOOKED_AT = 20_000


def recognise(head: str) -> bool:
    """Whether the beginning of a file is the output of such a tool."""
    return _of(head) is not None


def read(content: Opened, report: Report, run: str) -> NoReturn:
    """Refuse the file by its name."""
    del report, run
    what, instead = _of(content.head()) or ("output without counts", _STAT)
    raise FormatError(f"{content.name}: {what}; perfkit's methods need counts. {instead}")


def _of(head: str) -> tuple[str, str] | None:
    text = head.lstrip("\ufeff")[:_LOOKED_AT].replace("\r\n", "\n")
    return next(((what, instead) for pattern, what, instead in _PATTERNS if pattern.search(text)), None)
