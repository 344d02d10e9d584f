"""Merging results of several runs in one folder, which is then like the folder of a run, and computing results again.

    tables      tables from elsewhere, read with limited memory, and how two tables differ
    checks      everything in the folder of a run, before a byte of it is taken over
    union       one plan for several: names that tell results apart, and how runs differ under equal keys
    merge       the whole way, which leaves the old folder or the new one behind
    again       what needs no model is computed again and compared with what is stored

Nothing from elsewhere is executed, and no pickle is read.
"""
