"""The training of the nano models, run by `python -m tools.nano_training`.

`pipeline` has the stages. `lessons` and `teaching` draw the batches of each stage, from `chains`, `misconceptions` and
`labels`. `model` and `judge` are what is trained. The trained weights are in `registry/nano/models`, not here.
"""
