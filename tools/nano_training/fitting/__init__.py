"""The model, the trainer, progress figures and model folders. The training examples are in `examples` and `stages`."""
