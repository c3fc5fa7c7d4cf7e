"""Where a figure comes from: every set of data says one of these."""

from typing import Literal, get_args

Kind = Literal["measured", "simulated", "generated", "published"]
KINDS: tuple[str, ...] = get_args(Kind)
