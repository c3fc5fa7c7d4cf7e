"""Roofline: a piecewise-linear upper bound of throughput over operational intensity."""

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pandas as pd

from perfkit.errors import DataError, SettingError, expect

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class Roofline:
    """The highest throughput P that a processor can reach at an operational intensity I.

    P(I) is 0 at I = 0, linear between the breakpoints, constant beyond the last one, and has a value of its own at
    I = infinity (work that was done while the event never happened). Axes are linear: between two breakpoints the
    bound is a straight line in I and P, which a logarithmic axis shows bent.

    Attributes
    ----------
    breakpoints : array of shape (n, 2)
        Intensity (work per event) and throughput (work per time) of each corner, by rising intensity; all finite.
    peak_intensity : float
        The intensity at which the left (rising) and the right (falling) part meet: halfway between the end of the one
        and the corner at which the other begins to fall, as the authors' program has it; infinity when there is no
        right part because the peak was reached without the event.
    at_infinity : float
        The bound at I = infinity, in work per time.
    event : str
        The event that the intensity counts, if it is one event's roofline.

    Examples
    --------
    >>> from perfkit.fitters.spire.piecewise import Roofline
    >>> classic = Roofline.from_ceilings(peak=4.0, slope=0.5)
    >>> classic.bound([0, 2, 8, float("inf")]).tolist()
    [0.0, 1.0, 4.0, 4.0]
    """

    breakpoints: np.ndarray
    peak_intensity: float
    at_infinity: float
    event: str = ""

    def __post_init__(self) -> None:
        how = "fit one with perfkit.Spire().fit(samples), or make one with perfkit.Roofline.from_ceilings"
        expect(not isinstance(self.breakpoints, str), self.breakpoints, "Roofline", "an array of breakpoints", how)
        points = np.array(self.breakpoints, dtype="float64")
        _check(points, self.event)
        points.setflags(write=False)
        object.__setattr__(self, "breakpoints", points)
        object.__setattr__(self, "peak_intensity", float(self.peak_intensity))
        object.__setattr__(self, "at_infinity", float(self.at_infinity))

    @classmethod
    def from_ceilings(cls, peak: float, slope: float, event: str = "") -> "Roofline":
        """Return the classic roofline P(I) = min(peak, slope * I) (SPIRE, section II-A).

        Parameters
        ----------
        peak : float
            The horizontal ceiling, work per time.
        slope : float
            The slanted one, events per time (a bandwidth).
        event : str
            The event whose roofline it is.

        Raises
        ------
        SettingError
            A ceiling is not finite and above 0.
        """
        for given in (peak, slope):
            how = "fit one with perfkit.Spire().fit(samples)"
            expect(isinstance(given, Real), given, "Roofline.from_ceilings", "two numbers", how)
        if not (np.isfinite(peak) and np.isfinite(slope) and peak > 0 and slope > 0):
            raise SettingError(f"ceilings are finite and above 0; found peak={peak}, slope={slope}")
        corner = peak / slope
        return cls(np.array([[0.0, 0.0], [corner, peak]]), corner, peak, event)

    def left_only(self) -> "Roofline":
        """Return the left part alone, and its peak at every intensity beyond it."""
        top = int(self.breakpoints[:, 1].argmax())
        points = self.breakpoints[: top + 1]
        if len(points) < 2:  # nothing but the origin rises: the peak was reached without the event
            points = np.array([[0.0, 0.0], [max(float(self.breakpoints[1, 0]), 1e-300), self.peak]])
        return Roofline(points, float(points[-1, 0]), float(points[-1, 1]), self.event)

    @property
    def peak(self) -> float:
        """The highest value of the bound, work per time."""
        return float(max(self.breakpoints[:, 1].max(), self.at_infinity))

    @overload
    def bound(self, intensity: float) -> np.float64: ...

    @overload
    def bound(self, intensity: "ArrayLike") -> "NDArray[np.float64]": ...

    def bound(self, intensity: Any) -> Any:
        """Return the bound at each intensity; 0 and infinity are allowed, NaN gives NaN.

        Parameters
        ----------
        intensity : array_like
            Work per event, of any shape.

        Returns
        -------
        ndarray of float (a NumPy scalar for a scalar)
            Work per time.

        Raises
        ------
        DataError
            An intensity is negative.
        """
        at = np.asarray(intensity, dtype="float64")
        if (at < 0).any():
            raise DataError(f"operational intensity is at least 0; found {at[at < 0].flat[0]}")
        value = np.interp(at, self.breakpoints[:, 0], self.breakpoints[:, 1])
        return np.where(np.isposinf(at), self.at_infinity, value)[()]

    @overload
    def is_left(self, intensity: float) -> np.bool: ...

    @overload
    def is_left(self, intensity: "ArrayLike") -> "NDArray[np.bool]": ...

    def is_left(self, intensity: Any) -> Any:
        """Return whether each intensity is at or left of the peak: where fewer events would raise the bound.

        Infinity, where the event does not happen, is at the peak only where nothing finite is: the authors' program
        has it so.
        """
        at = np.asarray(intensity, dtype="float64")
        alone = self.at_infinity > self.breakpoints[:, 1].max()
        return (at <= self.peak_intensity) & (np.isfinite(at) | alone)

    def curve(self, low: float, high: float, points: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Return intensities from ``low`` to ``high`` and the bounds there: corners, and `points` even on a log axis.

        Raises
        ------
        SettingError
            Not 0 < `low` < `high` < infinity.
        """
        if not 0 < low < high < np.inf:
            raise SettingError(f"a curve runs over 0 < low < high < infinity; found {low} and {high}")
        corners = self.breakpoints[:, 0]
        inside = corners[(corners > low) & (corners < high)]
        at = np.union1d(np.geomspace(low, high, points), inside)
        return at, self.bound(at)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per breakpoint, and a last one for infinity: intensity, throughput, part.

        ``part`` says of which part the point is an end: left, right, peak (where they meet) or infinity.
        """
        at, height = self.breakpoints.T
        part = np.where(at < self.peak_intensity, "left", "right").astype(object)
        part[height == height.max()] = "peak"
        return pd.DataFrame(
            {
                "intensity": np.append(at, np.inf),
                "throughput": np.append(height, self.at_infinity),
                "part": [*part, "infinity"],
            }
        )

    def __repr__(self) -> str:
        name = f"{self.event}: " if self.event else ""
        return (
            f"<Roofline {name}{len(self.breakpoints)} breakpoints, peak {self.peak:.4g} at {self.peak_intensity:.4g}, "
            f"{self.at_infinity:.4g} at infinity>"
        )


def _check(points: np.ndarray, event: str) -> None:
    of = f" of {event}" if event else ""
    if points.ndim != 2 or points.shape[1] != 2 or len(points) < 2:
        raise DataError(f"breakpoints{of}: expected an array of shape (n, 2), n >= 2; found {points.shape}")
    if not np.isfinite(points).all() or (points < 0).any():
        raise DataError(f"breakpoints{of}: expected finite numbers of at least 0; found {points.tolist()}")
    if not (points[1:, 0] > points[:-1, 0]).all():
        raise DataError(f"breakpoints{of}: expected strictly rising intensities; found {points[:, 0].tolist()}")
    if points[0].any():
        raise DataError(f"breakpoints{of}: expected (0, 0) first; found {points[0].tolist()}")
