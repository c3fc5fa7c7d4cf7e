"""The map of event names as a table, which tests of the map look things up in."""

import pandas as pd

from perfkit.fitters.bottlenecks.names import map_rows


def map_table():
    """One row per simulated event and real name."""
    return pd.DataFrame(map_rows(), columns=["simulated", "real", "note", "vendor", "cores", "group", "port", "shared"])
