#!/usr/bin/env bash
# Does what Binder does, without Docker: the tracked files in a fresh folder, a fresh environment with binder/requirements.txt,
# binder/postBuild, then the tour notebook. Takes a few minutes and half a gigabyte in the temporary folder.
#   scripts/simulate_binder.sh [NOTEBOOK ...]     (default: notebooks/00_tour.ipynb)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say() { printf 'simulate_binder: %s (%d s)\n' "$*" "$SECONDS" >&2; }

git ls-files -z | xargs -0 cp --parents -t "$folder"
cd "$folder"
python=python$(sed 's/^python-//' binder/runtime.txt)
command -v "$python" >/dev/null || { say "binder/runtime.txt asks for $python, which is not on this machine"; exit 1; }
"$python" -m venv "$folder/venv"
say "environment made"
# Binder has no PYTHONPATH and its own programs first.
unset PYTHONPATH
export PATH="$folder/venv/bin:$PATH" JUPYTER_DATA_DIR="$folder/jupyter" IPYTHONDIR="$folder/ipython"
python -m pip install -q --disable-pip-version-check -r binder/requirements.txt
say "requirements installed"
./binder/postBuild >"$folder/postBuild.log" 2>&1 || { cat "$folder/postBuild.log" >&2; exit 1; }
say "postBuild done"
for notebook in "${@:-notebooks/00_tour.ipynb}"; do
    papermill -k python3 --no-progress-bar --no-log-output --cwd notebooks "$notebook" "$folder/out.ipynb" 2>"$folder/run.log" ||
        { tail -30 "$folder/run.log" >&2; exit 1; }
    say "$notebook executed"
done
