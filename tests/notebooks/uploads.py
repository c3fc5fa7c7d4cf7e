"""Files given to `YourDump` as a browser gives them."""

import datetime

from perfkit_widgets import YourDump


def upload(view: YourDump, *files: tuple[str, str]) -> None:
    """Give files by name and text, as the browser does."""
    now = datetime.datetime.now(tz=datetime.UTC)
    view.upload.value = tuple(
        {"name": name, "type": "", "size": len(text), "last_modified": now, "content": memoryview(text.encode())}
        for name, text in files
    )


def dump_of(cpi: float) -> str:
    """A dump of perf stat of eight intervals at a CPI."""
    rows = [(i, 1_000_000 * i, int(1_000_000 * i / cpi)) for i in range(1, 9)]
    return "# started on Thu Nov 26 10:00:00 2026\n\n" + "".join(
        f"     {i}.000100200,{count},,{event},1000000000,100.00,,\n"
        for i, cycles, instructions in rows
        for event, count in (("cycles", cycles), ("instructions", instructions), ("branch-misses", cycles % 777_777))
    )
