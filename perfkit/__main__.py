"""``python -m perfkit``: the command line."""

from perfkit.cli import main

if __name__ == "__main__":
    main()
