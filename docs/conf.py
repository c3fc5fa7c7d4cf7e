"""The documentation site (./kit docs): the pages of docs/ as they stand, and a reference made from the docstrings."""

import ast
import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(ROOT / "widgets")]

import perfkit  # noqa: E402

project = "perfkit"
author = "the perfkit developers"
project_copyright = author
version = release = perfkit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"perfkit {release}"
html_theme_options = {"sidebar_hide_name": False}
html_show_copyright = html_show_sphinx = html_copy_source = False
# Nothing is fetched, neither when the site is built nor when it is read.
html_js_files: list[str] = []
html_math_renderer = "mathjax"

# A word in backticks in a docstring is often a parameter's name, which is no link.
suppress_warnings = ["ref.python"]

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True  # attributes stand in a list; their names are no targets
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say what a parameter is, with its unit
python_use_unqualified_type_names = True
autodoc_default_options = {"members": True}

# Repository pages that documents link to and that are no pages of the site.
REPOSITORY = os.environ.get("PERFKIT_REPOSITORY", "")
# Each public package: page title, and where its names stand.
PACKAGES = {
    "perfkit": ("perfkit", ROOT / "perfkit" / "__init__.pyi"),
    "perfkit.collectors": (
        "perfkit.collectors: measured or generated inputs",
        ROOT / "perfkit/collectors/__init__.pyi",
    ),
    "perfkit.course": ("perfkit.course: exercises and their checks", ROOT / "perfkit/course/__init__.pyi"),
    "perfkit.scoring": ("perfkit.scoring: methods against known answers", ROOT / "perfkit/scoring/__init__.pyi"),
    "perfkit_widgets": ("perfkit_widgets: interactive views", ROOT / "widgets/perfkit_widgets/__init__.pyi"),
}
MODULES = ("perfkit.datasets", "perfkit.errors")


def groups(stub: Path) -> list[tuple[str, list[str]]]:
    """Return a stub's public names under the comments that they stand below."""
    found: list[tuple[str, list[str]]] = [("Names", [])]
    for line in stub.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            text = line[2:].rstrip(".")
            if found[-1][1] or len(found) == 1:
                found.append((text, []))
            else:
                found[-1] = (f"{found[-1][0]} {text}", [])
        for node in ast.walk(ast.parse(line)) if line.startswith("from .") else []:
            if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("_"):
                found[-1][1].extend(alias.name for alias in node.names)
    return [(title, names) for title, names in found if names]


def reference(_: Any) -> None:
    """Write the pages of the reference: one for each group of perfkit's names, one for each other package."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    pages: dict[str, str] = {}
    known: set[str] = set()
    for package, (title, stub) in PACKAGES.items():
        for number, (group, names) in enumerate(groups(stub)):
            if package == "perfkit":
                page, text = f"{package}-{number:02d}", heading(group, "=")
            else:
                page = package
                text = pages.get(page, heading(title, "="))
                if group != "Names":
                    text += heading(group, "-")
            pages[page] = text + "".join(entry(package, name) for name in names if name not in known)
            known.update(names)
    for module in MODULES:
        pages[module] = heading(module, "=") + f".. automodule:: {module}\n\n"
    pages["index"] = heading("Reference", "=") + (
        "Every public name, made from the docstrings.\n\n.. toctree::\n   :glob:\n\n   perfkit-*\n   perfkit.*\n   *\n"
    )
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()


def heading(text: str, sign: str) -> str:
    """Return a heading of reStructuredText."""
    return f"{text}\n{sign * len(text)}\n\n"


def entry(package: str, name: str) -> str:
    """Return the directive that documents a public name; modules have pages of their own."""
    found = getattr(importlib.import_module(package), name)
    if inspect.ismodule(found):
        return f"- ``{package}.{name}``: {(found.__doc__ or '').splitlines()[0]}\n\n"
    kind = "class" if isinstance(found, type) else "function" if callable(found) else "data"
    return f".. auto{kind}:: {package}.{name}\n\n"


def repository_links(_: Any, document: str, source: list[str]) -> None:
    """Let links that leave docs/ work on the site: as links to PERFKIT_REPOSITORY where it is set, else as names."""
    depth = document.count("/")

    def linked(found: re.Match[str]) -> str:
        text, target = found["text"], found["target"]
        path, _, anchor = target.partition("#")
        try:
            inside = ((HERE / document).parent / path).resolve().relative_to(ROOT)
        except ValueError:
            return found[0]
        if inside.parts[:1] == ("docs",):
            return found[0]
        if REPOSITORY:
            return f"[{text}]({REPOSITORY}/blob/main/{inside.as_posix()}{'#' + anchor if anchor else ''})"
        return (
            f"{text} (`{inside.as_posix()}` of the repository)"
            if text.strip("`") != inside.name
            else f"`{inside.as_posix()}`"
        )

    if document.startswith("api/"):
        return
    up = r"(?:\.\./){" + str(depth + 1) + r"}"
    source[0] = re.sub(rf"\[(?P<text>[^\]]+)\]\((?P<target>{up}[^)\s]+)\)", linked, source[0])


def setup(app: Any) -> None:
    """Connect the two steps above."""
    app.connect("builder-inited", reference)
    app.connect("source-read", repository_links)
