"""The league: strategies ranked at equal cost over all places. How it is worded belongs in `prmcal.db.text.league`."""
