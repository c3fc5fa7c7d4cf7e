"""Write the Binder links of all notebooks and units: docs/binder.md, and the lecturer's pages.

python scripts/binder_links.py                  after a new notebook: the table anew, with the address that it has
python scripts/binder_links.py OWNER/perfkit    with this repository's address on GitHub, in every document
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "binder.md"
ADDRESS = re.compile(r"(?<=mybinder\.org/v2/gh/)[\w.-]+/[\w.-]+(?=/HEAD\?)")
BEGIN, END = "<!-- table: scripts/binder_links.py -->\n", "<!-- end of table -->\n"


def main(arguments: list[str]) -> int:
    """Write the documents whose links or table are not as they should be, and name them."""
    repository = arguments[0] if arguments else repository_of(PAGE.read_text(encoding="utf-8"))
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        print(f"expected OWNER/NAME; found {repository!r}", file=sys.stderr)
        return 2
    for path, text in documents(repository).items():
        if path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


def repository_of(text: str) -> str:
    """Return the repository that a document's first Binder link names."""
    found = ADDRESS.search(text)
    return found[0] if found else ""


def documents(repository: str) -> dict[Path, str]:
    """Return every document with Binder links as it should be."""
    found = {}
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "notebooks").rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        if ADDRESS.search(text):
            found[path] = ADDRESS.sub(repository, text)
    before, _, rest = found[PAGE].partition(BEGIN)
    _, _, after = rest.partition(END)
    found[PAGE] = before + BEGIN + table(repository) + END + after
    return found


def table(repository: str) -> str:
    """Return a row for each notebook and unit: its name, the badge that opens JupyterLab, the link to the app."""
    lines = ["| notebook | in JupyterLab | as an app |", "| --- | --- | --- |"]
    folder = ROOT / "notebooks"
    for path in [*sorted(folder.glob("*.ipynb")), *sorted((folder / "course").glob("*.ipynb"))]:
        lab, app = (link(repository, path, kind) for kind in ("lab/tree", "voila/render"))
        badge = f"![Launch {path.stem} on Binder](img/binder.svg)"
        lines.append(f"| `{path.stem}`: {title(path)} | [{badge}]({lab}) | [app]({app}) |")
    return "\n".join(lines) + "\n"


def link(repository: str, path: Path, kind: str) -> str:
    """Return the Binder link that opens a notebook in JupyterLab (``lab/tree``) or as an app (``voila/render``)."""
    return f"https://mybinder.org/v2/gh/{repository}/HEAD?urlpath={kind}/{path.relative_to(ROOT).as_posix()}"


def title(path: Path) -> str:
    """Return a notebook's first heading."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    found = re.search(r"^# +(.+?) *$", text, re.M)
    return found[1] if found else path.stem


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
