"""The command line: the options of every command, and how errors end it.

What a command does belongs in `prmcal.harness.commands`, in the module with the command's name. That module is imported
when the command runs, so ``prmcal --help`` loads neither torch nor pandas.
"""

from prmcal.harness.cli.entry import main

__all__ = ["main"]
