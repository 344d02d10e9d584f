"""How GPUs of several sizes are used."""
