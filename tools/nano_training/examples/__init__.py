"""The parts of batches: tokenizer, chains, labels and token trees. How a stage mixes them is in `stages`."""
