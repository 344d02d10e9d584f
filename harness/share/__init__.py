"""Sharing: results of several people, checked, merged, and compared.

    bundle          a zip file with a manifest, which lists its files with their hashes, and its signatures
    privacy         what a bundle must not tell of a machine
    tables          digests of tables, and the check of their columns and values
    writing         from a run to a bundle
    shapes          the types of the JSON of a bundle
    checks          everything in a bundle is checked before a byte of it is kept
    submissions     what is merged: runs, bundles, merged leaderboards and verifications
    conditions      under which a submission was measured, where submissions differ, and what all of them have
    union           the union of submissions by key, and what tells its rows apart
    board           the database of a merged leaderboard
    merge           the whole way, which leaves the old or the new leaderboard behind
    verify_record   the record of a verification, which is made by `prmcal.harness.verify`

Nothing from elsewhere is executed, and no pickle is read.
"""
