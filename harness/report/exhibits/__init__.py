"""What a report is made of: the types of tables and charts, and how charts are drawn.

    types        tables and charts, with captions and footnotes
    multiples    figures of many panels with the same axes
    style        colours, markers and fonts

What a table or chart says belongs in `prmcal.harness.report.contents`.
"""
