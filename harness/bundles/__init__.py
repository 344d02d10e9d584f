"""Bundles: one file with the results of a run, for others to merge and to verify.

    format          what submission.json says, and how it is written and read
    digests         what a table contains, independent of the file that holds it
    choosing        which cells, and the part of the plan that they need
    contents        what a bundle has of an artifact, and what stays out
    privacy         what tells of a machine: paths, names of users and hosts
    archive         the bytes of a bundle, which follow from its entries
    signatures      SSH signatures of submission.json
    writing         from a run folder to a bundle
    tables          the check of tables from elsewhere, in a process with limited memory
    run_files       the check that files are those of a run
    unpacking       from a bundle to a folder, after all checks, and the same checks of a folder

An unpacked bundle has the layout of a run's folder. Nothing from a bundle is executed, and no pickle is read.
"""

from __future__ import annotations

from prmcal.harness.bundles.digests import table_digests
from prmcal.harness.bundles.format import About, BundledFile, Submission, TableDigest
from prmcal.harness.bundles.signatures import Signer, sign, signer_of
from prmcal.harness.bundles.unpacking import check_unpacked, submission_of, unpack
from prmcal.harness.bundles.writing import Bundled, bundled, write_bundle

__all__ = [
    "About",
    "Bundled",
    "BundledFile",
    "Signer",
    "Submission",
    "TableDigest",
    "bundled",
    "check_unpacked",
    "sign",
    "signer_of",
    "submission_of",
    "table_digests",
    "unpack",
    "write_bundle",
]
