"""The training of the nano models, run by `python -m tools.nano_training`.

The stages depend on `fitting` (model and trainer), `stages` (the batches of each stage) and `examples` (what batches
consist of). The trained weights are in `registry/nano/models`, not here.
"""
