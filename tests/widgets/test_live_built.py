"""The built file of the live views: what its sources build, tested by its own tests, and part of the wheel."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "widgets" / "live"
BUILT = ROOT / "widgets" / "perfkit_widgets" / "static" / "live.js"


def test_the_built_file_is_of_these_sources():
    """Without node: both digests in its head, of the sources and of what follows."""
    digest = hashlib.sha256()
    for path in sorted((SOURCES / "src").iterdir(), key=lambda p: p.name):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    head = re.match(r"// Built.*\n// sources: (\w+)\n// body: (\w+)\n", text := BUILT.read_text(encoding="utf-8"))
    assert head
    assert head[1] == digest.hexdigest(), "run `npm ci && npm run build` in widgets/live"
    assert head[2] == hashlib.sha256(text[head.end() :].encode()).hexdigest(), "static/live.js was edited by hand"


def test_the_built_file_is_small_and_asks_nobody():
    text = BUILT.read_text(encoding="utf-8")
    assert len(text) < 100_000
    assert not re.search(r"\bimport\b|\bfetch\(|XMLHttpRequest|\beval\(|innerHTML|insertAdjacentHTML", text)
    assert set(re.findall(r"https?://[^\"'`\s]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address


def node() -> str:
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node found: install Debian's package nodejs to run the live views' own tests")
    return found


def test_the_views_own_tests_pass():
    done = subprocess.run(
        [node(), "--test", "--test-reporter=tap"], cwd=SOURCES, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.M)[1]) >= 5


def test_types_hold_and_the_sources_build_this_very_file():
    if not (SOURCES / "node_modules").is_dir():
        pytest.skip("the type checker and the bundler are not installed: run `npm ci` in widgets/live")
    for command in (["node_modules/typescript/bin/tsc", "--noEmit"], ["build.mjs", "--check"]):
        done = subprocess.run([node(), *command], cwd=SOURCES, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_names_versions_and_digests_and_no_address():
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    assert all(entry["version"] and entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert all("resolved" not in entry for entry in packages.values())


def test_the_wheel_holds_the_built_file():
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    shipped = {Path(f.path) for f in builder.WheelBuilder(str(ROOT)).recurse_included_files()}
    assert {BUILT, BUILT.with_suffix(".css")} <= shipped
    assert not any("widgets/live/" in path.as_posix() for path in shipped)
