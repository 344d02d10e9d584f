"""The league as HTML: who is ahead, and the ranking of the strategies at equal cost."""

from __future__ import annotations

from prmcal.db.html.overview import template
from prmcal.db.overview.types import League
from prmcal.db.text.league import (
    LEAGUE_PURPOSE,
    league_board,
    league_measured,
    league_sentence,
)

__all__ = ["league_html"]


def league_html(found: League) -> str:
    """Return the sentence and the ranking as a fragment of HTML.

    It is styled by :func:`prmcal.db.html.overview.overview_style`. The calibrator stands below its strategy, so that a
    phone shows the gain beside them.
    """
    board = league_board(found)
    rank, strategy, *others = board.columns
    calibrators = next((each for each in others if each.title == "Calibrator"), None)
    numbers = [each for each in others if each is not calibrators]
    below = calibrators.values if calibrators else ("",) * len(found.rows)
    values = zip(*(each.values for each in numbers), strict=True)
    return template("league.html").render(
        purpose=LEAGUE_PURPOSE,
        measured=league_measured(found),
        sentence=league_sentence(found),
        columns=[rank, strategy, *numbers],
        rows=list(zip(rank.values, strategy.values, below, values, strict=True)),
        legend=board.legend,
    )
