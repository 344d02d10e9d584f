"""A PRM, a calibrator and a strategy from outside of prmcal; its entry points name them."""
