"""What several commands do with their output: JSON, notes, progress and pictures."""

import json
import math
import signal
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from perfkit.base.files import replaced
from perfkit.errors import PerfkitWarning


def print_json(found: Any) -> None:
    """Print JSON; a number that JSON cannot say (NaN, infinity) is null."""
    typer.echo(json.dumps(_plain(found), indent=1, allow_nan=False))


def rows(frame: Any) -> list[dict[str, Any]]:
    """Return a table's rows as JSON holds them, with all digits."""
    found: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", double_precision=15, default_handler=str))
    return found


def wrote(path: Path, more: str = "") -> None:
    """Say on the error output, beside whatever is printed, which file was written and what it holds or is for."""
    typer.echo(f"wrote {path}" + (f": {more}" if more else ""), err=True)


def draw(result: Any, path: Path) -> None:
    """Write a result's picture to a file, without a screen."""
    import matplotlib as mpl

    mpl.use("Agg")
    drawn = result.plot()
    write_picture(getattr(drawn, "figure", drawn), path)
    wrote(path)


def write_picture(figure: Any, path: Path, titles: Mapping[str, str] | None = None) -> None:
    """Write a matplotlib figure to a file whose ending says its format.

    Titles, by an artist's ``gid``, appear in an .svg where the pointer rests.
    """
    with replaced(path) as temporary:
        if titles and path.suffix == ".svg":
            from perfkit.plots.roofs_by_level import svg_with

            temporary.write_text(svg_with(figure, titles), encoding="utf-8")
        else:
            figure.savefig(temporary, dpi=150, bbox_inches="tight", format=path.suffix.removeprefix("."))


@contextmanager
def notes_to_stderr() -> Iterator[None]:
    """Show perfkit's warnings as plain lines on the error output; SIGTERM ends like Ctrl-C, so state is restored."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    with warnings.catch_warnings():
        warnings.simplefilter("always", PerfkitWarning)
        others = warnings.showwarning

        def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, PerfkitWarning):
                typer.echo(f"perfkit: note: {message}", err=True)
            else:
                others(message, category, *rest, **more)

        warnings.showwarning = show
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)


@contextmanager
def progress_bar(title: str = "") -> Iterator[Any]:
    """Yield a callback ``(done, total, what="")`` that draws a bar with the time left on a terminal (stderr)."""
    from tqdm import tqdm

    with tqdm(desc=title or None, unit="", dynamic_ncols=True, smoothing=0.1, leave=False, disable=None) as bar:

        def update(done: int, total: int, what: str = "") -> None:
            if bar.total != total:
                bar.reset(total)
                bar.initial = done  # what an earlier run did does not tell anything about this one's speed
            if what:
                bar.set_description_str(what, refresh=False)
            bar.n = done
            bar.refresh()

        yield update


def _plain(found: Any) -> Any:
    """Return what JSON can hold: text keys, no NumPy scalars, null for what is not a number."""
    if isinstance(found, Mapping):
        return {str(key): _plain(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [_plain(value) for value in found]
    if hasattr(found, "tolist"):
        return _plain(found.tolist())
    if isinstance(found, float):
        return found if math.isfinite(found) else None
    return found if found is None or isinstance(found, bool | int | str) else str(found)
