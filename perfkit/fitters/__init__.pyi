"""Inference from tables, a package or module for each method."""

from . import cpi as cpi  # CPI stacks by regression
from . import spire as spire  # a learned roofline per event
from . import studies as studies  # categories, trees and importances of studies
from . import topdown as topdown  # the top-down method's fractions
