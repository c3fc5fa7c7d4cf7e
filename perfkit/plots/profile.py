"""Where a run spends its time, as bars."""

from typing import TYPE_CHECKING, Any

from perfkit.plots.style import ACCENT, mark_kind, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from perfkit.collectors.profile.hot import Profile


def plot_profile(found: "Profile", top: int = 12, ax: Any = None) -> "Axes":
    """Draw the shares of the hottest functions as bars, the hottest on top.

    Parameters
    ----------
    found : Profile
        What to draw.
    top : int
        How many functions.
    ax : Axes, optional
        Where to draw.
    """
    hottest = found.functions[:top][::-1]
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(7.5, 0.32 * len(hottest) + 1.2), layout="constrained")[1]
    ax.barh(range(len(hottest)), [100 * each.share for each in hottest], color=ACCENT)
    name_rows(ax, [each.name for each in hottest], 50)
    ax.set_xlabel(f"share of the {found.unit} in %")
    ax.set_title(f"{found.program}: {found.method}")
    mark_kind(ax, found.kind)
    return ax
