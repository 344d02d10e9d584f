"""``prmcal list``: the registered plugins."""

from __future__ import annotations

from prmcal.errors import PluginError
from prmcal.harness.commands.output import one_of
from prmcal.harness.terminal.prose import broken
from prmcal.harness.terminal.size import terminal_width
from prmcal.harness.terminal.tables import text_table
from prmcal.registry.contracts.calibrator import Calibrator
from prmcal.registry.plugins import KINDS, calibrators

__all__ = ["render_plugins"]

_GIVEN = "as given"
_LEGEND = (
    "A fit without training takes less than a second, or minutes on a CPU if it reads hidden states. A pass trains the "
    "PRM on all calibration prefixes. 'any': a grid may ask for every level beta. 'as given': it depends on the "
    "arguments."
)


def render_plugins(kind: str | None) -> str:
    """Return the registered plugins with their classes: a table for each kind, or for one of them.

    If the kind is "calibrator", the table says what each calibrator reads, predicts, costs and is known by.

    Raises
    ------
    PrmcalError
        If there is no such kind.
    """
    if kind is not None:
        one_of("KIND", kind, list(KINDS))
    if kind == "calibrator":
        return _calibrators()
    return "\n\n".join(
        text_table([each, "class"], [[name, target] for name, target in registry.names().items()])
        for each, registry in KINDS.items()
        if kind in (None, each)
    )


def _calibrators() -> str:
    rows = [[name, *_described(name)] for name in calibrators.names()]
    table = text_table(["calibrator", "reads", "levels", "trains the PRM", "source"], rows)
    return "\n".join([table, "", *broken(_LEGEND, terminal_width())])


def _described(name: str) -> tuple[str, str, str, str]:
    """What a calibrator reads, its levels, how often it trains the PRM, and its source. No model is loaded."""
    try:
        cls = calibrators.get(name)
    except PluginError as error:
        return "?", "?", "?", str(error)
    source = f"{cls.citation} ({cls.known_by})" if cls.known_by else cls.citation
    try:
        built = calibrators.create(name)
    except PluginError:  # It needs arguments. Its class says what does not depend on them.
        passes = cls.training_passes
        return (
            str(cls.reads) if isinstance(cls.reads, str) else _GIVEN,
            _GIVEN,
            _passes(passes) if isinstance(passes, int) else _GIVEN,
            source,
        )
    return built.reads, _levels(built), _passes(built.training_passes), source


def _levels(calibrator: Calibrator) -> str:
    if calibrator.any_level:
        return "any"
    return "point" if calibrator.levels == (0.5,) else ", ".join(f"{level:g}" for level in calibrator.levels)


def _passes(passes: int) -> str:
    return f"{passes} passes" if passes > 1 else "1 pass" if passes else "no"
