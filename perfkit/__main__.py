"""``python -m perfkit``: the command line."""

from perfkit.cli import main

main()
