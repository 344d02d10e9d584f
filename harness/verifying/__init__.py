"""Verification: what of a submission can be checked by others, in tiers, and the record of it.

This folder has what all checks share: the record, the submission that is verified, and how findings become a check.
The checks are functions that take a :class:`prmcal.harness.verifying.subject.Subject` and return checks.

    consistent      the checks of the first tier, which needs no model and no texts
    repeated        the checks of the tiers that repeat work on texts
    tiers           the tiers as a whole

The command and its text belong in `prmcal.harness.cli`.
"""
