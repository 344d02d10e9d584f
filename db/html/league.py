"""The league as HTML: who is ahead, and the ranking of the strategies at equal cost."""

from __future__ import annotations

from prmcal.db.html.overview import template
from prmcal.db.league.types import League
from prmcal.db.text.league import (
    LEAGUE_PURPOSE,
    league_columns,
    league_legend,
    league_measured,
    league_sentence,
)

__all__ = ["league_html"]


def league_html(found: League) -> str:
    """Return the sentence and the ranking as a fragment of HTML.

    It is styled by :func:`prmcal.db.html.overview.overview_style`.
    """
    columns = league_columns(found)
    return template("league.html").render(
        purpose=LEAGUE_PURPOSE,
        measured=league_measured(found),
        sentence=league_sentence(found),
        columns=columns,
        rows=list(zip(*(column.values for column in columns), strict=True)),
        legend=league_legend(found),
    )
