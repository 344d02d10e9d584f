"""The Altair charts of the pages, the tables that they draw, and sentences that state what they show.

The style of charts belongs in `prmcal.db.charts`, the texts around them in `views`.
"""
