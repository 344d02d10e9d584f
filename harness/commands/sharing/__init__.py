"""``prmcal submit``, ``verify``, ``merge`` and ``diff``: results of several people."""
