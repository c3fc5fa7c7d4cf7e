"""TeX formulas of Markdown cells as inline SVG pictures, so that a page shows them without MathJax."""

import base64
import html
import io
import re
from typing import Any

# Code is left alone: fenced blocks and spans come first, so that a dollar sign in them starts no formula.
_PARTS = re.compile(
    r"(?P<code>```.*?```|`[^`\n]*`)|\$\$(?P<block>.+?)\$\$|(?<![\\$\w])\$(?P<inline>[^$\n]+?)\$(?![\w$])", re.S
)

# On dark pages formulas are inverted: paper of their own would be a black box.
_NO_PAPER: dict[Any, str] = {"savefig.facecolor": "none", "savefig.edgecolor": "none"}


def with_pictures(markdown: str) -> str:
    """Return Markdown whose ``$...$`` and ``$$...$$`` are pictures; what cannot be drawn stays as its TeX."""

    def replace(match: re.Match[str]) -> str:
        if match["code"] is not None:
            return match[0]
        tex = " ".join((match["block"] or match["inline"]).split())
        block = match["block"] is not None
        image = _image(tex, 13.0 if block else 11.0)
        if image is None:
            return f"<code>{html.escape(tex)}</code>"
        return f'<div class="pk-math-block">{image}</div>' if block else image

    return _PARTS.sub(replace, markdown)


def _image(tex: str, size: float) -> str | None:
    import matplotlib as mpl
    from matplotlib import mathtext
    from matplotlib.font_manager import FontProperties

    stream = io.BytesIO()
    with mpl.rc_context({"mathtext.fontset": "stix", "svg.fonttype": "path", "svg.hashsalt": "perfkit", **_NO_PAPER}):
        tex = re.sub(r"\\(le|ge)(?![a-zA-Z])", r"\\\1q", tex)  # matplotlib knows these by their long names only
        try:
            depth = mathtext.math_to_image(f"${tex}$", stream, prop=FontProperties(size=size), dpi=72, format="svg")
        except ValueError:  # TeX beyond matplotlib's subset
            return None
    data = base64.b64encode(stream.getvalue()).decode()
    style = f"vertical-align:{-depth:.1f}pt"
    return f'<img class="pk-math" style="{style}" alt="{html.escape(tex)}" src="data:image/svg+xml;base64,{data}">'
