"""HTML pages of executed notebooks, with the widget libraries of the installed packages instead of a CDN's."""

import html
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfkit.errors import UnavailableError

_HERE = Path(__file__).parent
_VIEW = "application/vnd.jupyter.widget-view+json"
# The names by which saved widgets ask for their classes, and the file of each below share/jupyter/nbextensions.
_LIBRARIES = (
    ("@jupyter-widgets/controls", "jupyter-js-widgets/extension.js", "ipywidgets (widgetsnbextension)"),
    ("bqscales", "bqscales/index.js", "bqscales"),
    ("bqplot", "bqplot/index.js", "bqplot"),
    ("anywidget", "anywidget/index.js", "anywidget"),
)
# The widget manager's file defines the base classes too.
_ALIASES = "\n".join(
    f"pk.alias({json.dumps(name)}, '@jupyter-widgets/controls');"
    for name in ("@jupyter-widgets/base", "@jupyter-widgets/output")
)


@dataclass(frozen=True)
class Site:
    """Where a page finds the widget libraries, and what its top line says.

    Attributes
    ----------
    script : str
        The address of the bundle, relative to the page; "" puts it into the page itself.
    bar : str
        HTML of the line above the notebook.
    """

    script: str = ""
    bar: str = ""


def bundle() -> str:
    """Return the JavaScript that shows saved widgets: perfkit's loader and the installed widget libraries.

    Raises
    ------
    UnavailableError
        A library is not installed in this environment; the message names its package.
    """
    parts = [(_HERE / "widgets.js").read_text(encoding="utf-8")]
    for name, path, package in _LIBRARIES:
        file = _find(path, package)
        parts += [f"pk.begin({json.dumps(name)});", file.read_text(encoding="utf-8"), "pk.end();"]
        if name.startswith("@jupyter-widgets"):
            parts.append(_ALIASES)
    parts.append("pk.start();")
    return "\n".join(parts)


def page_of(notebook: Any, title: str, site: Site) -> str:
    """Return the HTML page of an executed notebook (an nbformat node), which is left as it is."""
    import copy

    from nbconvert import HTMLExporter

    from perfkit.cli.pages.formulas import with_pictures

    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = with_pictures(cell.source)
    notebook.metadata["title"] = title
    exporter = HTMLExporter(
        template_name="template",
        extra_template_basedirs=[str(_HERE)],
        # Without these the page would ask a network for them.
        mathjax_url="",
        require_js_url="",
    )
    views = any(_VIEW in o.get("data", {}) for c in notebook.cells for o in c.get("outputs", []))
    body, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": title}, "pk_bar": site.bar})
    # nbconvert parses the whole page once more; two megabytes of scripts are better put in afterwards.
    head, end, rest = str(body).rpartition("</html>")
    return f"{head}{_scripts(site)}\n{end}{rest}" if views else str(body)


def single_page(notebook: Any, title: str) -> str:
    """Return a page that is one file: libraries, pictures and data inside."""
    return page_of(
        notebook,
        title,
        Site(
            bar=html.escape(
                f"{title} · a lesson, run by perfkit report: what it says of shipped data is not about yours"
            )
        ),
    )


def _scripts(site: Site) -> str:
    if site.script:
        return f'<script src="{html.escape(site.script)}" defer></script>'
    # "</script" in a library's text would end the element.
    return "<script>" + bundle().replace("</script", "<\\/script") + "</script>"


def _find(path: str, package: str) -> Path:
    for root in (Path(sys.prefix), Path(sys.base_prefix)):
        file = root / "share" / "jupyter" / "nbextensions" / path
        if file.is_file():
            return file
    raise UnavailableError(
        f"the page needs {path} of the package {package}, which is not in {sys.prefix}. "
        "Install perfkit with its notebooks' packages: pip install 'perfkit[lab]'."
    )
