"""The Altair charts of the pages, and the style that they share.

The DataFrames that they draw belong in `frames` and `prmcal.db`, the texts around them in `views`.
"""
