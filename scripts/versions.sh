#!/usr/bin/env bash
# Does perfkit hold with other versions, and outside of its clone?
#   scripts/versions.sh newest [PYTHON] [TESTS...]   the newest versions that pyproject.toml allows, and the tests
#   scripts/versions.sh lowest [PYTHON] [TESTS...]   the oldest versions that it allows of what it names itself (needs uv)
#   scripts/versions.sh wheel [PYTHON]               the wheel, installed elsewhere: without extras at most 400 MB that trace
#                                                    and simulate; then with notebooks, which run the README's snippet
# Environments are made in $VERSIONS (default: a temporary folder that is removed) and are used again where they exist.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
what=${1:?newest, lowest or wheel}
python=${2:-python3}
shift $(($# < 2 ? $# : 2))
[ -n "${VERSIONS:-}" ] || { VERSIONS=$(mktemp -d) && trap 'rm -rf "$VERSIONS"' EXIT; }
mkdir -p "$VERSIONS"
env="$VERSIONS/$what-$("$python" -c 'import sys; print(*sys.version_info[:2], sep=".")')"
[ -x "$env/bin/python" ] || "$python" -m venv "$env"
pip() { "$env/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
tools=(pytest pytest-timeout pytest-benchmark pytest-xdist hypothesis networkx ruff mypy types-PyYAML)

tests() {
    cd "$root"
    "$env/bin/python" -c 'import sys, numpy, pandas, scipy, pyarrow, numba
print("Python", sys.version.split()[0], *(f"{m.__name__} {m.__version__}" for m in (numpy, pandas, scipy, pyarrow, numba)))'
    (($#)) || set -- tests/readers tests/samples tests/exploration tests/files tests/fitters tests/fleet tests/cli tests/widgets
    PYTHONPATH="$root:$root/widgets" "$env/bin/python" -m pytest -q -p no:cacheprovider -m 'not measures and not browser' "$@"
}

case $what in
newest)
    pip "$root[studies,lab]" "${tools[@]}"
    pip --no-deps -e "$root" # the clone is tested, with what its wheel asked for
    tests "$@"
    ;;
lowest)
    uv pip compile -q "$root/pyproject.toml" --extra studies --extra lab --resolution lowest-direct --only-binary :all: \
        --python "$env/bin/python" --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o "$VERSIONS/lowest.txt"
    pip -r "$VERSIONS/lowest.txt" "${tools[@]}"
    pip --no-deps -e "$root"
    tests "$@"
    ;;
wheel)
    "$env/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$VERSIONS/wheels" "$root"
    pip "$VERSIONS"/wheels/perfkit-*.whl
    mkdir -p "$VERSIONS/elsewhere" && cd "$VERSIONS/elsewhere"
    # pip is the environment's own, not something that perfkit asks for.
    size=$(du -sm --exclude=pip --exclude='pip-*' --exclude=setuptools --exclude='setuptools-*' "$env/lib" | cut -f1)
    echo "installed without extras: $size MB"
    echo 'void k(double *a, long n) { for (long i = 0; i < n; i++) a[i] += 1.0; }' >k.c
    "$env/bin/perfkit" trace k.c -o k.trace -- 'f8[1000]' 1000
    "$env/bin/perfkit" gus k.trace --core zen4
    [ "$size" -le 400 ] || { echo "expected at most 400 MB" >&2; exit 1; }
    pip "$(ls "$VERSIONS"/wheels/perfkit-*.whl)[lab]"
    "$env/bin/python" "$root/scripts/readme_snippet.py" "$root/README.md"
    "$env/bin/perfkit" explore my-program.txt
    ;;
*) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
