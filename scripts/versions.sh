#!/usr/bin/env bash
# Does perfkit hold with other versions, and outside of its clone?
#   scripts/versions.sh newest [PYTHON] [TESTS...]   the newest versions that pyproject.toml allows, and the tests
#   scripts/versions.sh lowest [PYTHON] [TESTS...]   the oldest versions that it allows of what it names itself (needs uv)
#   scripts/versions.sh wheel [PYTHON]               the wheel, installed elsewhere: its size, and the README's snippet
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
tools=(pytest pytest-timeout pytest-benchmark pytest-xdist hypothesis networkx)

tests() {
    cd "$root"
    "$env/bin/python" -c 'import sys, numpy, pandas, scipy, pyarrow, numba
print("Python", sys.version.split()[0], *(f"{m.__name__} {m.__version__}" for m in (numpy, pandas, scipy, pyarrow, numba)))'
    (($#)) || set -- tests/readers tests/samples tests/exploration tests/files tests/fitters tests/fleet
    "$env/bin/python" -m pytest -q -p no:cacheprovider -m 'not measures and not browser' "$@"
}

case $what in
newest)
    pip "$root[studies,trace]" "${tools[@]}"
    "$env/bin/python" -m pip uninstall -q -y perfkit # the clone is tested, with what its wheel asked for
    tests "$@"
    ;;
lowest)
    uv pip compile -q "$root/pyproject.toml" --extra studies --extra trace --resolution lowest-direct \
        --python "$env/bin/python" --no-emit-index-url --no-emit-find-links --no-header --no-annotate -o "$VERSIONS/lowest.txt"
    pip -r "$VERSIONS/lowest.txt" "${tools[@]}"
    tests "$@"
    ;;
wheel)
    "$env/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$VERSIONS/wheels" "$root"
    pip "$VERSIONS"/wheels/perfkit-*.whl
    echo "installed: $(du -sm "$env/lib" | cut -f1) MB, of which perfkit $(du -sm "$env"/lib/python*/site-packages/perfkit | cut -f1) MB"
    pip "$(ls "$VERSIONS"/wheels/perfkit-*.whl)[lab,trace]"
    mkdir -p "$VERSIONS/elsewhere" && cd "$VERSIONS/elsewhere"
    "$env/bin/python" "$root/scripts/readme_snippet.py" "$root/README.md"
    "$env/bin/perfkit" explore my-program.txt
    ;;
*) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
