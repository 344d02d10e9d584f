"""The command line: a module for each command, with its options, what it does and what it prints.

app      the commands, exit codes, and errors that end a command
options  what commands share: arguments, options and formats of the output

Reports and sites belong in `prmcal.harness.report` and `prmcal.harness.site`.
"""

from prmcal.harness.cli.app import main

__all__ = ["main"]
