"""``python -m prmcal``: the same as the command ``prmcal``."""

from prmcal.harness.cli import main

if __name__ == "__main__":
    main()
