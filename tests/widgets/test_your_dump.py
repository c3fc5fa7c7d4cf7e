"""YourDump without a browser: what is told once files were given."""

from pathlib import Path

import perfkit as pk
from perfkit_widgets import YourDump
from tests.notebooks.uploads import dump_of, upload


def test_after_an_upload_it_says_that_what_stands_below_is_of_something_else():
    view = YourDump(pk.explore, pk.explore("spire/memory"), below="Run the <cells> below.")
    assert "below." not in view.answer.value
    upload(view, ("mine.csv", dump_of(2.0)))
    assert view.answer.value.startswith("<div class='pk-note' role='status'>Run the &lt;cells&gt; below.</div>")
    assert "mine" in view.answer.value


def test_what_cannot_be_read_changes_nothing_below():
    view = YourDump(pk.explore, pk.explore("spire/memory"), below="Run the cells below.")
    before = view.found
    upload(view, ("bad.csv", "nothing"))
    assert "bad.csv" in view.answer.value
    assert "Run the cells" not in view.answer.value
    assert view.found is before


def test_a_view_alone_needs_no_such_words(tmp_path: Path):
    view = YourDump(pk.explore)
    upload(view, ("mine.csv", dump_of(2.0)))
    assert "pk-note" not in view.answer.value
