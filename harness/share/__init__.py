"""Sharing: results of several people, checked, merged, compared, verified and published.

    bundle          a zip file with a manifest, which lists its files with their hashes, and its signatures
    privacy         what a bundle must not tell of a machine
    tables          digests of tables, and the check of their columns and values
    writing         from a run to a bundle
    checks          everything in a bundle is checked before a byte of it is kept
    submissions     what is merged: runs, bundles, merged leaderboards and verifications
    conditions      under which a submission was measured, where submissions differ, and what all of them have
    union           the union of submissions by key, and what tells its rows apart
    board           the database of a merged leaderboard
    merge           the whole way, which leaves the old or the new leaderboard behind
    verify          a submission in tiers; the checks are in the files verify_*
    verify_record   the record of a verification
    publish         the site of a merged leaderboard, its exports (the files publish_*), and a results repository
    template/       the files of that repository

Nothing from elsewhere is executed, and no pickle is read.
"""
