"""Use each compiled method once, so that numba's code is cached before somebody waits for it (binder/postBuild)."""

import time

import perfkit as pk


def spire() -> None:
    """Fit and rank."""
    pk.Spire().fit(pk.datasets.load("spire/train")).rank(pk.datasets.load("spire/memory"))


def gus() -> None:
    """Simulate, with everything that can be asked of the result."""
    result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    result.sensitivity()
    result.causality()
    result.timeline()


def dag() -> None:
    """Schedule a kernel of the paper."""
    for dag in pk.open_dags("mmm_triple", sizes=[6]).values():
        pk.DagScheduler(pk.DagCore.load("sandy_bridge_erm")).run(dag)


def pmu() -> None:
    """Count a trace."""
    pk.SimulatedPmu("skylake_x", intervals=4).collect({"fig1a": pk.datasets.load("traces/fig1a")})


def tracer() -> None:
    """Record a kernel; needs a compiler."""
    pk.collectors.corpus_kernel("gemm", "avx2").trace()


def main() -> None:
    """Warm each method; say what could not be, and why."""
    for step in (spire, gus, dag, pmu, tracer):
        start = time.perf_counter()
        try:
            step()
        except pk.errors.UnavailableError as error:
            print(f"{step.__name__}: not warmed ({error})")
        else:
            print(f"{step.__name__}: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
