"""What each command of ``prmcal`` does and prints, one module for each command.

The options of the commands belong in `prmcal.harness.cli`; reports and sites belong in `prmcal.harness.report` and
`prmcal.harness.site`.
"""
