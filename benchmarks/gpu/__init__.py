"""What a GPU makes of prmcal: one command, in steps of minutes, with models of random weights."""
