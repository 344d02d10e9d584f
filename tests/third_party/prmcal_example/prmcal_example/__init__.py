"""A PRM and a calibrator from outside of prmcal; its entry points name them."""
