"""The Altair charts of the pages, the tables behind them, and sentences on their content.

The style of charts belongs in `prmcal.db.charts`, the texts around them in `views`.
"""
