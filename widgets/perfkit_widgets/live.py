"""Views that compute in the browser: the same in JupyterLab, in Voila, and in a page opened from disk."""

import base64
import html
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from perfkit.base.files import replaced
from perfkit.errors import SettingError
from perfkit.plots.cpi_stack import named_fits
from perfkit.plots.live.cpi import live_cpi
from perfkit.plots.live.grid import Progress, live_roofs, live_what_if
from perfkit.plots.live.packed import LiveModel
from perfkit.plots.live.spire import live_spire
from perfkit_widgets.base import Pictured, own_axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perfkit.fitters.cpi.stack import CpiComparison, CpiFit
    from perfkit.fitters.spire.model import SpireModel
    from perfkit.samples.areas import Areas
    from perfkit.samples.table import Samples
    from perfkit.simulators.dag.measures import ExtendedRoofline

_STATIC = Path(__file__).parent / "static"


class LiveView(Pictured, anywidget.AnyWidget):
    """A view that is given a model once and then needs no kernel.

    Where widgets cannot be shown, its picture stands in for it. Every view has a state, a small dictionary of what
    differs from the view as it opens; it is a trait here and stands in the address of the page, so that a link opens
    the view as it is.

    Attributes
    ----------
    state : dict
        What was chosen; see each view.
    """

    _esm = _STATIC / "live.js"
    _css = _STATIC / "live.css"
    model = traitlets.Bytes().tag(sync=True)
    state: Any = traitlets.Dict().tag(sync=True)

    def __init__(self, model: LiveModel) -> None:
        super().__init__()
        self.title = str(model.head["title"])
        self.model = model.packed()

    def save_page(self, path: str | Path, *others: Any, title: str = "") -> Path:
        """Write a page with this view (and others below it) that opens from disk, without a network; return its path.

        Parameters
        ----------
        path : path
            An ``.html`` file; one that is there is replaced.
        others : LiveView
            Further views of the same page.
        title : str
            Of the page; by default the first view's.

        Raises
        ------
        SettingError
            The name has another ending, or ``others`` holds something else than live views.
        """
        target = Path(path)
        if target.suffix.lower() not in (".html", ".htm"):
            raise SettingError(f"a page is saved as .html; found {target.name!r}")
        wrong = [type(other).__name__ for other in others if not isinstance(other, LiveView)]
        if wrong:
            raise SettingError(f"a page holds live views (LiveSpire, LiveCpiStack, ...); found {', '.join(wrong)}")
        text = _page((self, *others), title or self.title)
        with replaced(target) as temporary:
            temporary.write_text(text, encoding="utf-8")
        return target


class LiveSpire(LiveView):
    """Rank the events of any part of a run, and see the chosen one's roofline: `SpireExplorer` without a kernel.

    Parameters
    ----------
    model : SpireModel
        The trained ensemble.
    samples : Samples
        The analysed workload.
    training : Samples, optional
        What the model was trained on, drawn as a grey cloud behind each roofline.
    areas : Areas, optional
        The top-down area each event belongs to; by default the shipped mapping.
    top : int
        How many events the ranking shows.

    Attributes
    ----------
    state : dict
        ``event`` (the chosen one), ``axes`` ("log" or "linear"), ``window`` (numbers of the first and the last
        interval, both included, counted from 0 along the time axis).

    Examples
    --------
    >>> samples = pk.SimulatedPmu("zen4", intervals=4).collect(pk.datasets.load("traces/divider"))
    >>> view = pw.LiveSpire(pk.Spire().fit(samples), samples, top=3)
    """

    def __init__(
        self,
        model: "SpireModel",
        samples: "Samples",
        training: "Samples | None" = None,
        *,
        areas: "Areas | None" = None,
        top: int = 12,
    ) -> None:
        self._drawn = (model, samples, training, areas, top)
        super().__init__(live_spire(model, samples, training, areas=areas, top=top))

    def picture(self) -> "Figure":
        """Return the ranking of the whole run and the lowest bound's roofline as a static picture."""
        from perfkit.plots.spire_views import plot_spire_exploration

        model, samples, training, areas, top = self._drawn
        ranking = model.rank(samples)
        event = str(ranking.to_frame()["event"].iloc[0])
        return plot_spire_exploration(model, samples, ranking, event, training=training, areas=areas, top=top)


class LiveCpiStack(LiveView):
    """Fit CPI stacks of any part of a run, with other events, forms and methods: `CpiStackExplorer` without a kernel.

    Parameters
    ----------
    fits : CpiFit, CpiComparison or mapping of names to CpiFit
        The stacks to begin with, fitted by non-negative or ordinary least squares or Huber's method.

    Attributes
    ----------
    state : dict
        ``stack`` (a name), ``form``, ``method``, ``sums`` (intervals that are added up first, as text), ``off`` (events
        that are left out), ``window`` (numbers of the first and the last interval of the stack's run, counted from 0).

    Examples
    --------
    >>> samples, _ = pk.synthetic_cpi(intervals=200, seed=1)
    >>> view = pw.LiveCpiStack({"mine": pk.CpiStack().fit(samples)})
    """

    def __init__(self, fits: "CpiFit | CpiComparison | Mapping[str, CpiFit]") -> None:
        self._fits = named_fits(fits)
        super().__init__(live_cpi(self._fits))

    def picture(self) -> "Figure":
        """Return the stacks as they were fitted, and the first one's evidence, as a static picture."""
        from perfkit.plots.cpi_stack import plot_overview

        return plot_overview(self._fits)


class LiveWhatIf(LiveView):
    """Make some resources of the core better or worse, together: `WhatIf` without a kernel, on a grid.

    Every combination is simulated when the view is made.

    Parameters
    ----------
    what_if : callable
        Factors (resource -> factor on its capacity, those that are not 1) -> a `perfkit.sensitivity` result, such as
        `perfkit.what_if` returns.
    resources : mapping of str to str
        Resource -> what to write beside its slider.
    factors : sequence of float
        The places of each slider, 1 among them.
    top : int
        How many resources of the new ranking to show.
    title : str
        What is simulated.
    progress : callable, optional
        Called with the simulations done and their total.

    Attributes
    ----------
    state : dict
        ``factors``: resource -> factor, of those that are not 1.

    Examples
    --------
    >>> result = pk.Gus("skylake_x").run(pk.datasets.load("traces/fig1a"))
    >>> view = pw.LiveWhatIf(result.what_if, {"rob": "224 entries"}, (1.0, 2.0))
    """

    def __init__(
        self,
        what_if: Callable[[Mapping[str, float]], Any],
        resources: Mapping[str, str],
        factors: Sequence[float] = (0.5, 1.0, 2.0, 4.0),
        *,
        top: int = 6,
        title: str = "",
        progress: Progress | None = None,
    ) -> None:
        self._first, self._top = what_if({}), top
        super().__init__(live_what_if(what_if, resources, factors, top=top, title=title, progress=progress))

    def picture(self) -> "Figure":
        """Return the ranking on the core as it is as a static picture."""
        from matplotlib.figure import Figure

        from perfkit.plots.gus import plot_speedups

        figure = Figure(figsize=(8, 1.7 + 0.3 * self._top), layout="constrained")
        plot_speedups(self._first.to_frame(), f"{self.title} (simulated)", self._top, figure.subplots())
        return figure


class LiveRoofs(LiveView):
    """The extended roofline with sliders that change the core: `RooflineView` without a kernel, on a grid.

    Every combination is scheduled when the view is made.

    Parameters
    ----------
    roofline : ExtendedRoofline
        Of the core as it is.
    reschedule : callable
        Called with the sliders' values as keywords; returns the roofline of that core (`perfkit.rescheduler`).
    sliders : mapping of str to sequence of numbers
        For each parameter of the core the values it may take; its own is added.
    progress : callable, optional
        Called with the schedules done and their total.

    Attributes
    ----------
    state : dict
        ``values`` (parameter -> value, of those changed), ``hidden`` (kinds of roofs), ``roof`` (the chosen one).

    Examples
    --------
    >>> dag = pk.trace_dag(pk.datasets.load("traces/fig1a"))
    >>> scheduler = pk.DagScheduler(pk.DagCore.load("erm"))
    >>> view = pw.LiveRoofs(scheduler.run(dag).roofline(), pk.rescheduler(dag, scheduler), {"rob": (84, 168)})
    """

    def __init__(
        self,
        roofline: "ExtendedRoofline",
        reschedule: "Callable[..., ExtendedRoofline]",
        sliders: Mapping[str, Sequence[float]],
        *,
        progress: Progress | None = None,
    ) -> None:
        self._roofline = roofline
        super().__init__(live_roofs(roofline, reschedule, sliders, progress=progress))

    def picture(self) -> "Figure":
        """Return the roofline of the core as it is as a static picture."""
        from perfkit.plots.extended_roofline import plot_extended_roofline

        figure: Figure = plot_extended_roofline(self._roofline, ax=own_axes(9, 5)).figure
        return figure


# Nothing may be asked of a network, and nothing runs but what the page brings.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def _page(views: tuple[LiveView, ...], title: str) -> str:
    """Return a page of views; everything it needs is in it."""
    code = (_STATIC / "live.js").read_text(encoding="utf-8")
    style = (_STATIC / "live.css").read_text(encoding="utf-8")
    places = "".join(_place(view, f"model-{i}") for i, view in enumerate(views))
    # "</script" in the code would end the element.
    script = code.replace("</script", "<\\/script")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><title>{html.escape(title)}</title>'
        f'<style>{style}</style></head><body class="pkl-page"><main>{places}</main>'
        f'<script type="module">{script}</script></body></html>\n'
    )


def _place(view: LiveView, name: str) -> str:
    """Return where a view comes to stand, with its model; its picture where scripts do not run."""
    picture = base64.b64encode(view.png()).decode()
    state: Mapping[str, Any] = view.state
    return (
        f'<section data-model="{name}" data-state="{html.escape(json.dumps(state))}"></section>'
        f'<noscript><img alt="{html.escape(view.title)}" src="data:image/png;base64,{picture}"></noscript>'
        f'<script type="text/plain" id="{name}">{base64.b64encode(view.model).decode()}</script>'
    )
