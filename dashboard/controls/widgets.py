"""Cached queries, and widgets whose values are in the address, so that everyone who opens it sees the same page."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode

import pandas as pd
import streamlit as st

from prmcal.dashboard.formats import escaped
from prmcal.db.reader import fingerprint

_PAGE_OF_APP = "prmcal page"
_T = TypeVar("_T")


def link(page: str, /, **state: str | Sequence[str] | None) -> str:
    """Return the address of a page in a given state, relative to the other pages, so that it works below any base path.

    The path of the first page is empty. A parameter has a value, several for a widget with several, or None for no
    parameter.
    """
    parameters = {name: value for name, value in state.items() if value is not None}
    query = urlencode(parameters, doseq=True, quote_via=quote, safe="")
    return f"{page or './'}?{query}" if query else page or "./"


def enter_page(url_path: str) -> None:
    """Name the page that is drawn. Widgets of different pages never share their state, only the address."""
    st.session_state[_PAGE_OF_APP] = url_path


def query_values(parameter: str) -> list[str]:
    """Return the values of a query parameter: none if the address does not have it."""
    return list(st.query_params.get_all(parameter))


def write_address(changes: Mapping[str, str | Sequence[str] | None]) -> None:
    """Change several query parameters in one step of the browser's history. None, or no value, removes a parameter."""
    state = {**{name: query_values(name) for name in st.query_params}, **changes}
    st.query_params.from_dict({name: value for name, value in state.items() if value})


def bound(
    parameter: str,
    options: Sequence[_T],
    default: _T | None = None,
    *,
    text: Callable[[_T], str] = str,
    resets: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the keyword arguments that bind a widget with one value to a query parameter.

    `text` returns the text of an option in the address. The default (the first option unless given) is not in the
    address. The parameters in `resets` are removed when the reader chooses another value.
    """
    default_option = options[0] if default is None and len(options) else default
    by_text = {text(option): option for option in options}
    in_address = query_values(parameter)[-1:]
    for unknown in set(in_address) - set(by_text):
        instead = "" if default_option is None else f" The page shows {text(default_option)!r} instead."
        st.warning(escaped(f"There is no {parameter} {unknown!r} here.{instead}"))
    value = next((by_text[name] for name in in_address if name in by_text), default_option)
    return _binding(parameter, value, default_option, lambda value: text(value), resets)


def bound_several(parameter: str, options: Sequence[str], default: Sequence[str] = ()) -> dict[str, Any]:
    """Return the same for a widget with several values. An empty parameter means that no value is chosen."""
    in_address = query_values(parameter)
    valid = [value for value in in_address if value in options]
    unknown = [value for value in in_address if value and value not in options]
    if unknown:
        listed = ", ".join(map(repr, unknown))
        st.warning(escaped(f"There is no {parameter} {listed} here. The page leaves it out."))
    value = valid if valid or "" in in_address else list(default)
    return _binding(parameter, value, list(default), lambda values: values or [""])


def bound_text(parameter: str) -> dict[str, Any]:
    """Return the keyword arguments for a field of text."""
    return _binding(parameter, "".join(query_values(parameter)[-1:]), "", lambda text: str(text))


def _binding(
    parameter: str, value: Any, default: Any, text: Callable[[Any], str | Sequence[str]], resets: Sequence[str] = ()
) -> dict[str, Any]:
    key = f"{st.session_state.get(_PAGE_OF_APP, '')} {parameter}"
    # The browser takes over a value that is set, and forgets what the reader clicked in the meantime.
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value

    def write() -> None:
        selection = st.session_state[key]
        written = None if selection is None or selection == default else text(selection)
        write_address({**dict.fromkeys(resets), parameter: written})

    return {"key": key, "on_change": write}


_P = ParamSpec("_P")

REFRESH_SECONDS = 2
"""The time between two looks of an open page for new results."""


def ask(query: Callable[Concatenate[Path, _P], _T], path: Path, *arguments: _P.args, **keywords: _P.kwargs) -> _T:
    """Call a query on the published copy at `path`, or return its cached result.

    The query is a function of :mod:`prmcal.db.catalog`, or a function that asks by itself and takes longer than reading
    its result. All readers share the result, so nobody may change it. Raises a DatabaseError if the copy is missing or
    cannot be read, or if the query raises one.
    """
    name = f"{query.__module__}.{query.__qualname__}"
    answer: _T = _answer(name, str(path), fingerprint(path), query, arguments, keywords)
    return answer


def ask_cells(query: Callable[[Path, str], pd.DataFrame], path: Path, cells: pd.DataFrame) -> pd.DataFrame:
    """Run a query for several cells. Join the results, with the calibrator of each cell in a column `calibrator`."""
    pairs = zip(cells["cell_id"], cells["calibrator"], strict=True)
    return pd.concat([ask(query, path, cell_id).assign(calibrator=name) for cell_id, name in pairs])


@st.cache_resource(max_entries=96, show_spinner=False)
def _answer(
    name: str,
    path: str,
    published: tuple[int, int, int] | None,
    _query: Callable[..., Any],
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """Run a query. All parameters but `_query` are the key of the cache; `published` is the fingerprint of the file."""
    return _query(Path(path), *arguments, **keywords)


def choose_view(options: Sequence[str], parameter: str = "view", *, resets: Sequence[str] = ()) -> str:
    """Let the reader choose a view of the page, by default the first. Another view drops the parameters in `resets`."""
    binding = bound(parameter, options, resets=resets)
    view: str = st.segmented_control("View", options, required=True, label_visibility="collapsed", **binding)
    return view


def choose_row(table: pd.DataFrame, key: str, parameters: Mapping[str, str | None]) -> None:
    """Show a table in which the reader can select one row, and write the names in the row into the address.

    A new key clears the selection. `parameters` has the column whose value each query parameter gets; None removes the
    parameter. Fractions have three decimal places.
    """

    def write() -> None:
        for row in st.session_state[key].selection.rows:
            values = table.iloc[row]
            write_address({name: str(values[column]) if column else None for name, column in parameters.items()})

    fractions = table.select_dtypes("floating").columns
    st.dataframe(
        table,
        hide_index=True,
        column_config={name: st.column_config.NumberColumn(format="%.3f") for name in fractions},
        key=key,
        on_select=write,
        selection_mode="single-row",
    )


def show_download(name: str, csv: Callable[[], str]) -> None:
    """Show the button that downloads a table as CSV. `prmcal leaderboard` and `prmcal report` write other formats.

    `csv` makes the file when the reader asks for it, because that takes seconds for thousands of cells.
    """
    st.download_button(
        "CSV",
        csv,
        file_name=f"{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        help="Download this table as CSV",
    )
