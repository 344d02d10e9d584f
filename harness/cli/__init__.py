"""The command line: the options of every command, and how errors end it.

What a command does belongs in `prmcal.harness.commands`, in a room with the name of the module here. It is imported
when the command runs, so ``prmcal --help`` loads neither torch nor pandas.
"""

from prmcal.harness.cli.entry import main

__all__ = ["main"]
