"""What each command of ``prmcal`` does and prints, one module for each command.

The rooms have the names of the modules of `prmcal.harness.cli`, where the options of the commands belong. Reports and
sites belong in `prmcal.harness.report` and `prmcal.harness.site`.
"""
