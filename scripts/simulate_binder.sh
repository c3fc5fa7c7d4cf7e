#!/usr/bin/env bash
# Does what Binder does, without Docker: the tracked files in a fresh folder, a fresh environment with binder/requirements.txt,
# binder/postBuild, then the notebooks, each as a person meets it: started anew, as a user who is not root, without compilers.
# Prints for each notebook the seconds until its first picture, the seconds in all, and the largest memory of its kernel with
# the programs that it starts; fails where a notebook fails, a first picture takes more than 60 s, or memory is over 1.5 GB.
# Takes some minutes and a gigabyte in the temporary folder.
#   scripts/simulate_binder.sh [NOTEBOOK ...]     (default: all of notebooks/ and the course's units)
#   PERFKIT_BINDER_SECONDS, PERFKIT_BINDER_MEGABYTES: other limits, for a machine that is busy
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say() { printf 'simulate_binder: %s (%d s)\n' "$*" "$SECONDS" >&2; }

git ls-files -z | xargs -0 cp --parents -t "$folder"
cd "$folder"
# A user of its own, and a PATH on which there is no compiler: the programs that scripts need, and the environment's.
run=()
if [ "$(id -u)" = 0 ]; then
    run=("$(command -v setpriv)" --reuid=65534 --regid=65534 --clear-groups)
    chmod 755 "$folder" && chown -R 65534:65534 "$folder"
    say "notebooks run as $("${run[@]}" id -un) (Binder's user is not root, either)"
fi
# root's own Python (pyenv's, say) lies in a folder that this user cannot read: the first that it can start.
version=python$(sed 's/^python-//' binder/runtime.txt) python=
while read -r each; do
    ! "${run[@]}" "$each" -c 'import ensurepip, venv' 2>/dev/null || { python=$each && break; }
done < <(which -a "$version")
[ -n "$python" ] || { say "binder/runtime.txt asks for $version, and there is none here that the notebooks' user can start"; exit 1; }
mkdir "$folder/bin"
for program in bash env cat cp mkdir rm sed dirname basename uname ls id git; do
    ! found=$(command -v "$program") || ln -s "$found" "$folder/bin/$program"
done
"$python" -m venv "$folder/venv"
say "environment made"
# Binder has no PYTHONPATH and its own programs first.
unset PYTHONPATH
export HOME="$folder/home" JUPYTER_DATA_DIR="$folder/jupyter" IPYTHONDIR="$folder/ipython" XDG_CACHE_HOME="$folder/home/.cache"
mkdir -p "$HOME"
export PATH="$folder/venv/bin:$PATH"
python -m pip install -q --disable-pip-version-check -r binder/requirements.txt
say "requirements installed"
if [ "$(id -u)" = 0 ]; then chown -R 65534:65534 "$folder"; fi
"${run[@]}" ./binder/postBuild >"$folder/postBuild.log" 2>&1 || { cat "$folder/postBuild.log" >&2; exit 1; }
say "postBuild done"
export PATH="$folder/venv/bin:$folder/bin"
for compiler in gcc cc clang g++; do
    ! command -v "$compiler" >/dev/null || { say "$compiler is on PATH"; exit 1; }
done
[ $# -gt 0 ] || set -- 'notebooks/*.ipynb' 'notebooks/course/*.ipynb'
"${run[@]}" python scripts/first_picture.py "$@"
say "all done"
