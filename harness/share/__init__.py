"""Sharing: results of several people, checked, merged, and compared.

    bundle          a zip file with a manifest, which lists its files with their hashes, and its signatures
    tables          digests of tables, and the check of their columns and values
    writing         from a run to a bundle
    checks          everything in a bundle is checked before a byte of it is kept, and what must not leave
    submissions     what is merged: runs, bundles, merged leaderboards and records of verifications
    conditions      under which a submission was measured, where submissions differ, and what all of them have
    union           the union of submissions by key, and what tells its rows apart
    merge           the whole way, which leaves the old or the new leaderboard behind, and the database

Nothing from elsewhere is executed, and no pickle is read.
"""
