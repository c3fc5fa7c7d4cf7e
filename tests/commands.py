"""All commands of the program, by name: for tests that go through them."""

from typing import Any

import typer.main

from perfkit.cli.main import app


def commands() -> dict[str, Any]:
    """Return each command by its words, as ``study run``."""

    def walk(command, name):
        for each, below in getattr(command, "commands", {}).items():
            yield from walk(below, f"{name} {each}".strip())
        if not hasattr(command, "commands"):
            yield name, command

    return dict(walk(typer.main.get_command(app), ""))
