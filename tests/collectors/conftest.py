import os
import shutil

import pytest


def pytest_collection_modifyitems(items):
    reason = None
    if os.uname().machine != "x86_64":
        reason = f"measures with the TSC of x86-64; this machine is {os.uname().machine}"
    elif shutil.which("gcc") is None or shutil.which("objdump") is None:
        reason = "needs gcc and objdump (Debian packages gcc and binutils)"
    for item in items:
        if reason and item.get_closest_marker("measures"):
            item.add_marker(pytest.mark.skip(reason=reason))
