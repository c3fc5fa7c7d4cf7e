"""What a process that perfkit starts must find, wherever it is started: this very perfkit."""

import os
from pathlib import Path


def module_path() -> str:
    """Return a ``PYTHONPATH`` that begins with this perfkit's own place, before what the user's environment names.

    For children that are started with ``-P``, which find nothing in the working folder: also from a clone that is not
    installed.
    """
    return os.pathsep.join([str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
