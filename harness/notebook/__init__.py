"""``prmcal.run`` and ``prmcal.open_run``: what the commands do, for Python and notebooks.

    starting    run a grid
    opened      the results of a run as tables

They print nothing unless they are asked to, end no process, and raise the errors of the commands.
"""
