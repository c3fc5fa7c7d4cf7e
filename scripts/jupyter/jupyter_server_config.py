"""What `./kit lab` asks of JupyterLab; options of its command line override it."""

from pathlib import Path

c = get_config()  # type: ignore[name-defined]  # noqa: F821  Jupyter gives it
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.root_dir = str(Path(__file__).resolve().parents[2])
c.LabApp.news_url = None
