"""Plain English: phrases that readers stumbled over stay away from documents, notebooks, messages and docstrings."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A pattern, and what good scientific software says instead.
BANNED = {
    r"\bheld against (a machine|the truth)": "validated on real hardware; validated against ground truth",
    r"\bguilty\b": "responsible",
    r"\b(roof|event|form|component|resource)s? speaks?\b": "belongs to, corresponds to",
    r"\bspeaks? of (the|a|an|no|memory)\b": "belongs to, corresponds to",
    r"\bknows a form speaks": "the highest-priority layer that defines the form wins",
    r"\b(can|cannot|could) carry (a|one|it|this)( stack)?\b": "support",
    r"\bled astray\b": "biased",
    r"\b[Mm]end the file\b": "fix the file",
    r"\bAs it is\"": "Reset to baseline",
    r"\b[Cc]lick on (a|the) column": "Click a column header",
    r"\bby a column's head\b": "Click a column header to sort",
    r"\bwaiting is not counted\b": "CPU time",
    r"\b[Oo]ne (row|column|roofline|line|file|process) an? (run|event|interval|sample|file|core)\b": "per",
    r"\b[Oo]ne (row|column|line) an? (version|decision|measure|stack|node|pass|CPU|count|launch|use|fault)\b": "per",
    r"\ban? (bar|page|column|colour|panel|lane|task|experiment|interval) an? "
    r"(group|run|cycle|weight|worker|configuration|point|event)\b": "one ... per",
    r"\b(cycles|uops|bytes|instructions|flops) an? (cycle|instruction|event|iteration|call|link)(?= *[.,;:)\"])": "per",
    r"(?<!many )(?<!which )\b(cycles|uops|bytes|loads|stores|accesses|numbers|variants|branches|samples) an? "
    r"(second|minute|link|event|sample|iteration|access|node|worker)\b(?! (has|of|takes|may))": "per",
    r"\bin silence\b": "silently",
    r"\bgoes on where it (was|stopped)\b": "resumes where it stopped",
    r"\b[Ww]here from\b": "its source",
    r"\bhopelessly\b": "a figure, or: by far",
    r"\b(samples|runs|calls|hours|days|times) on end\b": "consecutive",
    r"\bput right (here|in)\b": "corrected",
    r"\b(lives|live) (off|from the)\b": "depends on",
    r"\bthe best there is\b": "the best available",
    r"\bas deep as\b.*\bfile says\b": "of the depth in the file",
    r"\b(data|it) is said to carry\b": "supported",
    r"\bpromises x\d": "gives",
    r"\b([Oo]ne|an?) (row|object|access|bit) an? (class|line|cycle|element)\b": "per",
    r"\bone a processor\b": "one per processor",
    r"\b\d+ [kMG]i?B an? (group|machine|file|run|event|interval|row)\b": "per",
    r"\bfrom an? half on\b": "if it is half or more",
    r"\b(at most|after|for|in) so many (seconds|calls|processes|instructions)\b": "this many",
    r"(?<!cycles, 32 )\bin the mean\b": "on average",
    r"(?<!\")\bmended\b": "fixed, corrected",
    r"(\d ?%|\bcycles|\bwidth,) beside the truth\b": "off; missed the truth",
    r"\bthe one or the other\b": "one or the other",
    r"\bstands? in `": "is listed in",
    r"\b(calls|code|libraries|nothing|fewer|they|row) (is|are) told\b(?! (apart|from|the|to|by))": "reported",
    r"\bWatchedRun an?\b": "run a",
    r"\bmeans? what it says\b": "say what it means",
    r"\b\d[\d.]* ?(s|ms|[kMG]i?B) an? (worker|page|machine|task|file|run)\b": "per",
    r"\b[Oo]ne part an? (file|run|machine)\b": "per",
    r"[}\dN] ([a-z]+ )?[a-z]{3,}\(s\)": "perfkit.errors.counted: 1 line, 2 lines",
}


def pieces():
    """(place, text): what people read."""
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    for name in files:
        path = ROOT / name
        if name in ("CHANGELOG.md", "tests/project/test_english.py") or not path.is_file():
            continue
        if path.suffix in (".md", ".py", ".pyi", ".js", ".toml") or name == "kit":
            yield from ((f"{name}:{n}", line) for n, line in enumerate(path.read_text().splitlines(), 1))
        elif path.suffix == ".ipynb":
            cells = json.loads(path.read_text())["cells"]
            yield from ((f"{name}, cell {n}", "".join(cell["source"])) for n, cell in enumerate(cells))


def test_no_banned_phrase():
    every = list(pieces())
    whole = "\n".join(text for _, text in every)
    found = [
        f"{place}: {match[0]!r}; say: {instead}"
        for pattern, instead in BANNED.items()
        if re.search(pattern, whole, re.MULTILINE)  # what no text holds is in no line: a line at a time takes 13 s
        for place, text in every
        for match in re.finditer(pattern, text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "The simulator is held against a machine",
        "which instructions are guilty",
        "no roof speaks of the bottleneck",
        "whether the data can carry one",
        "one row a run",
        "bars, a colour a weight",
        "3 cycles an iteration.",
        "threads; 0 for one a processor",
        "45 million samples a second",
        "watch each run for so many seconds",
        "{n:,} empty place(s) where",
        "calls that were left out: fewer are told",
        "were measured 1 % beside the truth",
        "(12 s and 0.5 MB a page)",
    ],
)
def test_the_list_finds_what_it_is_for(text):
    assert any(re.search(pattern, text) for pattern in BANNED)
