"""Where a calibrated PRM comes from.

loading        ``prmcal.load``: a run, a saved folder, a checkpoint or an adapter
choosing       which cell of a run is used if nobody names one
saved_folder   the folder of ``CalibratedPRM.save``
"""
