"""The address of a page holds its state, so that everyone who opens the address sees the same view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import streamlit as st

from prmcal.dashboard.formats import escaped

PAGE = "page"
"""The parameter with the page of a table. Choices that change the rows drop it, which shows the first page again."""

_PAGE_OF_APP = "prmcal page"
_T = TypeVar("_T")


def link(page: str, /, **state: str | Sequence[str] | None) -> str:
    """Return the address of a page in a given state, relative to the other pages, so that it holds below any base path.

    Parameters
    ----------
    page : str
        The path of the page, such as ``calibration``. It is empty for the first page.
    **state
        Query parameters and their values: several for a widget with several values, None to leave a parameter out.
    """
    given = {name: value for name, value in state.items() if value is not None}
    query = urlencode(given, doseq=True, quote_via=quote, safe="")
    return f"{page or './'}?{query}" if query else page or "./"


def enter_page(url_path: str) -> None:
    """Name the page that is drawn. Widgets of different pages never share their state, only the address."""
    st.session_state[_PAGE_OF_APP] = url_path


def given(parameter: str) -> list[str]:
    """Return the values of a query parameter: none if the address does not have it."""
    return list(st.query_params.get_all(parameter))


def given_names(parameter: str, options: Sequence[str]) -> list[str]:
    """Return those values of a query parameter that are options. A note names the others."""
    unknown = [value for value in given(parameter) if value and value not in options]
    if unknown:
        note(f"There is no {parameter} {', '.join(map(repr, unknown))} here. The page leaves it out.")
    return [value for value in given(parameter) if value in options]


def address_of() -> dict[str, list[str]]:
    """Return all query parameters of the address."""
    return {name: given(name) for name in st.query_params}


def write_address(changes: Mapping[str, str | Sequence[str] | None]) -> None:
    """Change several query parameters in one step of the browser's history. None, or no value, removes a parameter."""
    state = {**address_of(), **changes}
    st.query_params.from_dict({name: value for name, value in state.items() if value})


def note(text: str) -> None:
    """Tell the reader that the page cannot show what its address asks for, and what it shows instead."""
    st.warning(escaped(text))


def bound(
    parameter: str,
    options: Sequence[_T],
    default: _T | None = None,
    *,
    text: Callable[[_T], str] = str,
    resets: Sequence[str] = (PAGE,),
) -> dict[str, Any]:
    """Return the keyword arguments that bind a widget with one value to a query parameter.

    Parameters
    ----------
    parameter : str
        The query parameter.
    options : sequence
        What the widget offers.
    default : optional
        The value that the address does not name; by default the first option.
    text : callable
        The text of an option in the address.
    resets : sequence of str
        Parameters that are removed when the reader chooses another value.
    """
    first = options[0] if default is None and len(options) else default

    def read(values: list[str]) -> _T | None:
        found = {text(option): option for option in options}
        if values and values[-1] not in found:
            note(
                f"There is no {parameter} {values[-1]!r} here. The page shows {_shown(first, text)} instead."
            )
        return found.get(values[-1], first) if values else first

    return _binding(parameter, read, first, lambda value: text(value), resets)


def bound_several(
    parameter: str,
    options: Sequence[str],
    default: Sequence[str] = (),
    *,
    resets: Sequence[str] = (PAGE,),
) -> dict[str, Any]:
    """Return the same for a widget with several values. An empty parameter means that no value is chosen."""

    def read(values: list[str]) -> list[str]:
        known = given_names(parameter, options)
        return known if known or "" in values else list(default)

    return _binding(parameter, read, list(default), lambda chosen: chosen or [""], resets)


def bound_text(parameter: str, default: str = "", *, resets: Sequence[str] = (PAGE,)) -> dict[str, Any]:
    """Return the same for a text input. A text that is removed becomes the default again."""
    return _binding(parameter, lambda values: values[-1] if values else default, default, str, resets)


def widget_key(name: str) -> str:
    """Return the key of a widget of the page that is drawn."""
    return f"{st.session_state.get(_PAGE_OF_APP, '')} {name}"


def seed(key: str, value: Any) -> None:
    """Set the state of a widget that is drawn next.

    A value that the widget has already is not set again. The browser would take it over and forget what the reader
    clicked in the meantime.
    """
    if key not in st.session_state or st.session_state[key] != value:
        st.session_state[key] = value


def _binding(
    parameter: str,
    read: Callable[[list[str]], Any],
    default: Any,
    text: Callable[[Any], str | Sequence[str]],
    resets: Sequence[str],
) -> dict[str, Any]:
    key = widget_key(parameter)
    seed(key, read(given(parameter)))

    def write() -> None:
        value = st.session_state[key]
        written = None if value is None or value == default else text(value)
        write_address({**dict.fromkeys(set(resets) - {parameter}), parameter: written})

    return {"key": key, "on_change": write}


def _shown(value: _T | None, text: Callable[[_T], str]) -> str:
    return "nothing" if value is None else repr(text(value))


# Streamlit opens the page of the address when the browser goes through its history, without loading itself again.
OPEN_LINKS_HERE = """
function openLinksHere(root) {
  if (root.opensLinks) return;
  root.opensLinks = true;
  root.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState({}, "", link.href);
    dispatchEvent(new PopStateEvent("popstate"));
  });
}
"""
"""A function of JavaScript. After ``openLinksHere(root)``, links below this element open without a new start."""
