"""Verification: what of a submission can be checked by others, in tiers. The checks are functions that return checks.

    tiers       the tiers in their order, the cost of each, and the last one: own samples
    subject     what is verified, its flaws, and the checks of its plan: keys and questions
    again       parts of the plan are computed again, with the workers of a run, and compared
    texts       rows and values of what models made; the tiers that repeat work on texts

The record of a verification is in `prmcal.harness.share`, which reads it.
"""
