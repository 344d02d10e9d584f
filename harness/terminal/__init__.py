"""How text fits the terminal: its size, tables that leave out columns, wrapped and cut text, and the pager.

What is printed belongs in `prmcal.harness.cli`.
"""
