"""What tests of the command line share."""

import pytest

from perfkit.cli.main import main


@pytest.fixture
def perfkit(monkeypatch, capsys, tmp_path):
    """Run the program in a folder of its own; return what it printed, errors first where it failed."""

    def run(*words, status=0, folder=tmp_path):
        monkeypatch.chdir(folder)
        monkeypatch.setattr("sys.argv", ["perfkit", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (ended.value.code or 0) == status, told.err
        if not status:
            return told.out
        return (told.out or told.err) if "--json" in words else told.err + told.out

    return run
