"""Measured or generated inputs: tables of samples, studies and traces. Collectors never analyse."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
