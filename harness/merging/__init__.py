"""Merging: one leaderboard from many submissions, as a function of their set.

    submissions/    what is merged: submissions, their contents and conditions, verifications
    naming/         the names that tell variants apart, and their order
    union           the plan of all submissions
    artifacts       the artifacts of all submissions, each once
    conflicts       how contents differ that contradict each other
    outdated        versions that are no longer current
    provenance      rows of the database about submissions and verifications
    seeds           cells that are equal in all but the seed
    recording       the database of a merged leaderboard
    merge           the whole way
    sharing         merging with a leaderboard in a server
    apart           versions and conditions in which two leaderboards differ

Commands and their text belong in `prmcal.harness.cli`.
"""
