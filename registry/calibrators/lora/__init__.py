"""The calibrators `quantile-lora` and `quantile-adapter`: LoRA adapters that make a PRM predict quantiles.

How a PRM reads and scores prefixes is in `prms`.
"""
