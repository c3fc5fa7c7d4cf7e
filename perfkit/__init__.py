"""perfkit: find out why code is slow.

Five published methods on one set of types: SPIRE, MARTA's studies, the extended roofline, Gus and CPI stacks.
Start with ``import perfkit as pk`` and ``pk.read_samples(path)``, or open ``notebooks/00_tour.ipynb``.
The public names stand in ``__init__.pyi``, by what they are for; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
