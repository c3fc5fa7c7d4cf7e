"""The way in to counter dumps of every format."""

from .open_samples import open_samples as open_samples
from .read import read_samples as read_samples
