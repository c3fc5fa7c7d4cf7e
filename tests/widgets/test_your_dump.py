"""YourDump without a browser: what is told once files were given."""

import ipywidgets
import pytest

import perfkit as pk
from perfkit.errors import DataError
from perfkit_widgets import SamplesExplorer, YourDump
from tests.notebooks.uploads import dump_of, upload


def shown_without_widgets(view):
    bundle = view._repr_mimebundle_()
    return bundle[0] if isinstance(bundle, tuple) else bundle


def test_what_follows_it_tells_of_the_last_upload():
    samples = []
    view = YourDump(
        lambda paths: pk.explore(paths, samples_out=samples), pk.explore("spire/memory", samples_out=samples)
    )
    explorer = view.follow(lambda: SamplesExplorer(samples[-1]))
    words = view.follow(lambda: f"<{view.found.headline}>")
    first = explorer.children[0]
    assert "memory" in first._about.value
    for cpi in (2.0, 4.0):
        upload(view, (f"mine{cpi:.0f}.csv", dump_of(cpi)))
        assert f"mine{cpi:.0f}" in explorer.children[0]._about.value
        assert f"IPC {1 / cpi:g}" in words.children[0].value
        assert words.children[0].value.startswith("<pre")
        assert "&lt;IPC" in words.children[0].value  # what names in files say is text
    assert first.comm is None or not first.comm  # what is shown no more is gone


def test_what_cannot_be_read_changes_nothing_below():
    view = YourDump(pk.explore, pk.explore("spire/memory"))
    words = view.follow(lambda: view.found.headline)
    before, text = view.found, words.children[0]
    upload(view, ("bad.csv", "nothing"))
    assert "bad.csv" in view.answer.value
    assert view.found is before
    assert words.children == (text,)


def test_what_cannot_be_shown_is_said_in_its_place():
    def refuse() -> ipywidgets.Widget:
        raise DataError("these counts lack <it>")

    view = YourDump(pk.explore)
    follower = view.follow(refuse)
    assert "these counts lack &lt;it&gt;" in follower.children[0].value
    assert shown_without_widgets(follower)["text/plain"] == "these counts lack <it>"
    with pytest.raises(ZeroDivisionError):  # a mistake is none of the files'
        view.follow(lambda: 1 / 0)


def test_a_static_page_gets_the_text_or_the_picture():
    view = YourDump(pk.explore, pk.explore("spire/memory"))
    assert shown_without_widgets(view.follow(lambda: "as text"))["text/plain"] == "as text"
    assert "image/png" not in shown_without_widgets(view.follow(lambda: "as text"))
    samples = pk.datasets.load("spire/memory")
    assert "image/png" in shown_without_widgets(view.follow(lambda: SamplesExplorer(samples)))
