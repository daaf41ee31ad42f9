"""The command line: one file per verb, each a thin shell around the library.

Results go to stdout, everything else to stderr; `--json` gives one document on stdout.
"""

from evenhand.cli.app import app, main

__all__ = ["app", "main"]
