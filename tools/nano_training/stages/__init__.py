"""The batches and settings of each training stage. The order of the stages is in `__main__`."""
