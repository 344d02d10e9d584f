"""How the nano models were trained. `python -m prmcal.registry.nano.training` repeats all of it on one CPU core."""
