"""The built-in calibrators. The contract of a calibrator is in `contracts`, and the PRMs are in `prms`."""
