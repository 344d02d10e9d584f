"""The built-in LLMs, and how completions are sampled. The loading of weights is in `models`."""
