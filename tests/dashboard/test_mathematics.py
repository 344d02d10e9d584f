"""Text of a model is shown unchanged, with its formulas typeset."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prmcal.dashboard.formats import with_formulas


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"so $\frac{1}{2}$", r"so $\frac{1}{2}$"),
        (r"\[x^2\] and \(y\)", r"$\displaystyle x^2$ and $y$"),
        ("$$a\n= b$$", r"$\displaystyle a = b$"),
        (r"3=\boxed{\dfrac{3}{4}}", r"3\=$\boxed{\dfrac{3}{4}}$"),
        (r"$\begin{cases} 1 \\ 2 \end{cases}$", r"$\begin{cases} 1 \\ 2 \end{cases}$"),
        (r"$100\%$", r"$100\%$"),
    ],
)
def test_formulas_are_typeset(text: str, shown: str) -> None:
    assert with_formulas(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "it costs $5 and $6",
        r"$\href{javascript:alert(1)}{x}$",
        r"$\rule{99em}{99em}$",
        r"$\def\x{\x\x}\x$",
        r"$\color{white}{hidden}$",
        r"$\begin{document}x\end{document}$",
        r"\boxed{never closed",
        r"$100% hidden$",
        r"$\begin{matrix} a \\[999em] b \end{matrix}$",
        "$" + "{" * 50 + "}" * 50 + "$",
        "$" + "x" * 5000 + "$",
        "$a\u202eb$",
    ],
)
def test_a_formula_that_may_be_harmful_is_text(text: str) -> None:
    assert re.search(r"(?<!\\)\$", with_formulas(text)) is None


@given(st.text(alphabet=st.sampled_from("a1 \n\\${}()[]<>`*_|-#@/:&^%~=boxedfrac")))
def test_text_outside_formulas_is_escaped(text: str) -> None:
    rest = re.sub(r"\\[!-/:-@\[-`{-~]|(`+)(?!`).*?(?<!`)\1(?!`)|\$(?:\\.|[^$\\])+\$", "", with_formulas(text))
    assert re.search(r"[!-/:-@\[-`{-~]", rest) is None


def test_lines_are_kept() -> None:
    assert with_formulas("a\nb") == "a  \nb"
