"""What tests of the command line share."""

import pytest

from perfkit.cli.main import main


@pytest.fixture
def perfkit(monkeypatch, capsys, tmp_path):
    """Run the program in a folder of its own; return what it printed."""

    def run(*words, status=0):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("sys.argv", ["perfkit", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        assert (ended.value.code or 0) == status, told.err
        return (told.err or told.out) if status else told.out

    return run
