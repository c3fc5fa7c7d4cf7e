"""Parquet: what `Samples.to_parquet` wrote, or a plain table, wide or long."""

import json

from perfkit.errors import FormatError
from perfkit.readers import plain_table, spire_wide
from perfkit.readers.grid import Grid, as_float, is_number
from perfkit.readers.open import Opened
from perfkit.readers.report import Dump, Report
from perfkit.samples.table import read_parquet

NAME = "parquet"
TITLE = "parquet"


def recognise(head: str) -> bool:
    """Whether the beginning of a file looks like this format."""
    return head.startswith("PAR1")


def read(content: Opened, report: Report, run: str) -> Dump:
    """Read all counts of a file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(content.path, memory_map=True) as file:
            if json.loads((file.schema_arrow.metadata or {}).get(b"perfkit", b"{}")):
                return _own(content, report)
            table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise FormatError(f"{content.name}: parquet data that is truncated or corrupted ({error})") from error
    columns = {n: c for n, c in zip(table.column_names, table.columns, strict=True) if n != "__index_level_0__"}
    report.document(table.num_rows, table.num_rows, 0, unit="row")
    grid = Grid(tuple(columns), tuple(as_float(c) if is_number(c) else c for c in columns.values()), first_line=0)
    if spire_wide.recognise(",".join(f'"{n}"' for n in grid.names)):
        return spire_wide.to_dump(grid, report, run)
    return plain_table.to_dump(grid, report, run)


def _own(content: Opened, report: Report) -> Dump:
    """Take over what `Samples.to_parquet` wrote, with its notes and problems."""
    written = read_parquet(content.path)
    report.notes.extend(written["notes"])
    report.document(len(written["table"]), len(written["table"]), 0, unit="row")
    report.rows.extend(written["problems"].itertuples(index=False, name=None))
    return Dump(written["table"], written["runs"], (written["time_event"], written["work_event"]))
