"""``prmcal submit``, ``verify``, ``merge``, ``diff`` and ``publish``: results of several people."""
