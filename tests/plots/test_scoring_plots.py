import pandas as pd
import pytest

from perfkit.errors import SettingError
from perfkit.plots.scoring import plot_measures


def words(artist):
    return " ".join(t.get_text() for t in artist.findobj(lambda a: hasattr(a, "get_text")))


def test_measures_are_bars_with_marks():
    rows = pd.DataFrame(
        {"score": [0.5, 0.2], "low": [0.4, 0.1], "high": [0.6, 0.3], "random order": [0.1, 0.1]}, index=["a", "b"]
    )
    axes = plot_measures(rows)
    assert [bar.get_width() for bar in axes.patches] == [0.5, 0.2]
    assert "SIMULATED" in words(axes)
    assert "random order" in words(axes)
    with pytest.raises(SettingError, match="low, high not found"):
        plot_measures(rows[["score"]])
