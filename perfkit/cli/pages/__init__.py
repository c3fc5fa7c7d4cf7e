"""Executed notebooks as HTML pages that need no network: pictures, formulas and saved widgets included."""

from perfkit.cli.pages.page import Site, page_of, single_page
from perfkit.cli.pages.slides import slides_of

__all__ = ["Site", "page_of", "single_page", "slides_of"]
