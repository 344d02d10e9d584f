"""The calibrator `venn-abers`: inductive Venn-Abers prediction (Vovk, Petej and Fedorova, 2015).

Plain isotonic regression is in `calibrators`.
"""

from prmcal.registry.calibrators.venn_abers.calibrator import VennAbers

__all__ = ["VennAbers"]
