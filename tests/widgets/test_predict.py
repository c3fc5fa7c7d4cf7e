"""Predict and Reveal: nothing is shown before a commitment, and nothing changes after one."""

from typing import Any

import pytest
from matplotlib.figure import Figure

from perfkit.errors import SettingError
from perfkit_widgets import Predict, Reveal


def mime(view: Any) -> dict[str, Any]:
    bundle = view._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def test_a_prediction_can_be_changed_until_it_is_committed():
    guess = Predict("Which?", ["a", "b"])
    assert guess._button.disabled  # there is nothing to commit yet
    with pytest.raises(SettingError, match="nothing to commit"):
        guess.commit()
    guess._field.value = "a"
    guess._field.value = "b"
    guess._button.click()
    assert (guess.value, guess.committed) == ("b", True)
    assert guess._field.disabled
    assert guess._button.disabled
    with pytest.raises(SettingError, match="committed: b"):
        guess.value = "a"
    with pytest.raises(SettingError, match="stays committed"):
        guess.committed = False
    assert guess.value == "b"


def test_the_answer_shows_itself_after_the_commitment_only():
    drawn = []
    guess = Predict("How many?", between=(0, 4, 0.5), unit="cycles")
    answer = Reveal(guess, "2 cycles", "Two <adders>.", lambda: drawn.append(1) or Figure())
    assert drawn == []
    assert "2 cycles" not in answer._words.value
    assert answer.table()["answer"].tolist() == [None]
    guess._field.value = 1.5
    guess.commit()
    assert drawn == [1]
    assert "You predicted: 1.5 cycles" in answer._words.value
    assert "Two &lt;adders&gt;" in answer._words.value
    assert len(answer._below.children) == 1
    assert mime(answer)["text/plain"].startswith("You predicted: 1.5 cycles. Found: 2 cycles.")


@pytest.mark.parametrize("value", ["c", ""])
def test_only_choices_can_be_predicted(value: str):
    with pytest.raises(SettingError, match="expected one of a, b"):
        Predict("Which?", ["a", "b"], commit=value)


def test_only_numbers_of_the_range_can_be_predicted():
    with pytest.raises(SettingError, match="from 0 to 4"):
        Predict("How many?", between=(0, 4, 1), commit=5)
    with pytest.raises(SettingError, match="both were given"):
        Predict("How many?", ["a"], between=(0, 4, 1))


def test_text_of_blanks_is_no_prediction():
    guess = Predict("Why?")
    guess._field.value = "  "
    assert guess.value is None
    assert guess._button.disabled
    guess._field.value = "memory"
    guess._button.click()
    assert guess.said == "memory"


def test_a_run_without_a_reader_commits_at_once_and_readers_without_widgets_get_words():
    guess = Predict("Which <b>?", ["a<", "b"], commit="b")
    assert guess.committed
    assert "Which &lt;b&gt;?" in mime(guess)["text/html"]
    assert "<li>a&lt;</li>" in mime(guess)["text/html"]
    waiting = mime(Reveal(Predict("Which?", ["a"]), "a", "so"))
    assert "<details>" in waiting["text/html"]  # folded away
    assert "Found" not in waiting["text/plain"]


@pytest.mark.parametrize(("step", "digits"), [(1e-05, 5), (0.05, 2), (1.0, 0), (10.0, 0), (2.5, 1)])
def test_a_slider_shows_as_many_digits_as_its_step_has(step, digits):
    """A step of 0.00001 is written 1e-05: every place of the slider was shown as 0."""
    assert Predict("How many?", between=(0.0, 100 * step, step))._field.readout_format == f".{digits}f"
