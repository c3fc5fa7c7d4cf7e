"""perfkit: find out why code is slow.

Five published methods on one set of types: SPIRE, MARTA's studies, the extended roofline, Gus and CPI stacks.
Start with ``import perfkit as pk`` and ``pk.read_samples(path)``, or open ``notebooks/00_tour.ipynb``.
The public names are listed in ``__init__.pyi``, by what they are for; each is loaded when it is first used.
"""

import os
import sys

try:
    from typing import Any

    import lazy_loader

    _load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
except KeyboardInterrupt:  # Ctrl-C while the program `perfkit` starts ends it quietly; a library's caller is told
    as_module = ("-m", "perfkit") in zip(sys.orig_argv, sys.orig_argv[1:], strict=False)
    if as_module or os.path.basename(sys.argv[0]) == "perfkit":  # noqa: PTH119 - not before pathlib is loaded
        raise SystemExit(130) from None
    raise


def _loaded(name: str) -> Any:
    """Load a public name when it is first used, and say which extra is missing where one is."""
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        from perfkit.errors import uninstalled  # not before: who starts the program may stop it while it starts

        raise uninstalled(error) or error from error


__getattr__ = _loaded

if not os.access(__path__[0], os.W_OK):  # installed by somebody else, as on servers
    from perfkit.base.files import give_compiled_code_a_place

    give_compiled_code_a_place()


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magics ``%%why``, ``%%gus`` and ``%%compare``: IPython calls this for ``%load_ext perfkit``."""
    from perfkit.cli import magics  # the one import up: nobody else may, see tests/project/test_arrows.py

    magics.register(shell)
