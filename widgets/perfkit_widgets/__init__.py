"""Interactive views of perfkit's results for Jupyter: they hold a selection and draw; they never compute."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
