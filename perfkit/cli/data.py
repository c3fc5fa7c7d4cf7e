"""``perfkit data``: the shipped data sets."""

import typer

from perfkit.cli import options
from perfkit.cli.output import print_json, rows


def data(
    name: str | None = typer.Argument(None, metavar="[NAME]", help="Describe this data set, and check its sum."),
    as_json: options.Json = False,
) -> None:
    """List the shipped data sets.

    Example: perfkit data spire/train
    """
    from perfkit import datasets

    if name is not None:
        found = datasets.find(name)
        found.check()
        fields = {k: str(v) for k, v in vars(found).items()}
        if as_json:
            print_json(fields)
            return
        typer.echo("\n".join(f"{key + ':':10} {value}" for key, value in fields.items()))
        return
    table = datasets.to_frame()
    if as_json:
        print_json(rows(table))
        return
    width = max((len(n) for n in table["name"]), default=4)
    for row in table.itertuples():
        typer.echo(f"{row.name:{width}}  {row.kind:9}  {row.holds}")
