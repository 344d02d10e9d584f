"""Verification: what of a submission can be checked by others, in tiers. The checks are functions that return checks.

    tiers       the tiers in their order, and the cost of each
    subject     what is verified, and how flaws become a check
    plan        the first tier: keys, what they are made of, questions, test and calibration questions
    rows        the first tier: rows and values of what models made
    again       parts of the plan are computed again, with the workers of a run, and compared
    texts       the tiers that repeat work on texts: grades, and scores and fits
    samples     the last tier: own samples

The record of a verification is in `prmcal.harness.share`, which reads it.
"""
