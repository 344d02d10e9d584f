"""PRMs that answer by generating: a language model is asked about a prefix, and says Yes or No."""
