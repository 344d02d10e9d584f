"""Text that a model wrote as Markdown, with its formulas typeset.

KaTeX gets only formulas whose commands are known to be harmless. All other text is escaped, so that nothing in it
becomes HTML, a link, an emoji or another symbol.
"""

from __future__ import annotations

import re

from prmcal.dashboard.text.formats import escaped, visible

__all__ = ["with_formulas"]

_LONGEST, _DEEPEST = 2000, 12
# The rule for single dollars is that of Pandoc, so that "$5 and $6" is not a formula.
_FORMULA = re.compile(
    r"\$\$(?P<display>[^$]+)\$\$"
    r"|\$(?=\S)(?P<inline>[^$\n]*[^$\s\\])\$(?!\d)"
    r"|\\\((?P<round>.{1,2000}?)\\\)"
    r"|\\\[(?P<square>.{1,2000}?)\\\]"
    r"|(?P<boxed>\\boxed(?=\{))",
    re.DOTALL,
)
# Streamlit rewrites these even if they are escaped: addresses become links, dashes and arrows become symbols.
_REWRITTEN = re.compile(r"//|www\.|@|--|->|<-|>=|<=|~=")
_KNOWN = """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi rho sigma tau
    upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
    frac dfrac tfrac cfrac sqrt binom dbinom boxed text textbf textit textrm mathrm mathbf mathit mathbb mathcal
    mathsf operatorname overline underline bar hat vec dot tilde widehat overrightarrow underbrace overbrace
    cdot cdots ldots dots vdots ddots times div pm mp ast star circ bullet oplus otimes
    le leq leqslant ge geq geqslant ne neq lt gt ll gg equiv approx cong sim simeq propto mid nmid parallel perp
    in notin ni subset subseteq supset supseteq cup cap setminus emptyset varnothing forall exists neg land lor
    to rightarrow leftarrow Rightarrow Leftarrow leftrightarrow Leftrightarrow implies iff mapsto longrightarrow
    uparrow downarrow
    sum prod int iint oint lim limsup liminf sup inf max min gcd lcm deg det dim ker arg exp log ln lg sin cos tan
    cot sec csc arcsin arccos arctan sinh cosh tanh bmod pmod mod infty partial nabla angle triangle square degree
    prime ell Re Im therefore because
    left right big Big bigg Bigg bigl bigr Bigl Bigr lfloor rfloor lceil rceil langle rangle lvert rvert vert lVert
    rVert Vert lbrace rbrace backslash quad qquad displaystyle textstyle limits nolimits begin end hline
"""
_LAYOUTS = (
    "aligned align* gathered gather* split cases matrix pmatrix bmatrix vmatrix Bmatrix array smallmatrix"
)
_COMMANDS, _ENVIRONMENTS = frozenset(_KNOWN.split()), frozenset(_LAYOUTS.split())
_COMMAND = re.compile(r"\\(?:([A-Za-z]+)|(.))", re.DOTALL)
_LENGTH = re.compile(r"\\\\\s*\[")  # the space below a line of a matrix
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}")
_SYMBOLS = frozenset(r"\{}$%&#_ ,;:!|")


def with_formulas(text: str) -> str:
    r"""Return Markdown that shows a text with its formulas typeset and its line breaks kept.

    A formula is enclosed in dollar signs, in ``\(`` and ``\)`` or in ``\[`` and ``\]``, or it is a bare
    ``\boxed{...}``. It is shown as text if it is too long or nested too deeply, if its braces do not match, or if it
    has a command that is not known to be harmless (links, colours, macros, lengths).
    """
    parts, end = [], 0
    for match in _FORMULA.finditer(text):
        if match.start() < end:
            continue
        found = _formula(text, match)
        if found is None:
            continue
        formula, after = found
        parts += [_lines(text[end : match.start()]), formula]
        end = after
    return "".join([*parts, _lines(text[end:])])


def _formula(text: str, match: re.Match[str]) -> tuple[str, int] | None:
    """Return the formula as Markdown and the position of its end, or None if it must be shown as text."""
    if match["boxed"]:
        end = _closing_brace(text, match.end())
        inner, display = text[match.start() : end or match.end()], False
        if end is None or _within_formula(text, match.start()):
            return None
    else:
        end = match.end()
        inner = next(each for each in match.groups() if each)
        display = match["display"] is not None or match["square"] is not None
    inner = " ".join(inner.split())
    if not _is_harmless(inner):
        return None
    return (f"$\\displaystyle {inner}$" if display else f"${inner}$"), end


def _within_formula(text: str, place: int) -> bool:
    """Return whether a line has an odd number of dollar signs before a position, that is, an unfinished formula."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line.replace("\\$", "").count("$") % 2 == 1


def _is_harmless(formula: str) -> bool:
    if not formula or len(formula) > _LONGEST or not formula.isprintable():
        return False
    depth = 0
    bare = formula.replace("\\\\", "  ").replace("\\{", "  ").replace("\\}", "  ")
    for each in bare:
        depth += (each == "{") - (each == "}")
        if not 0 <= depth <= _DEEPEST:
            return False
    if depth or _LENGTH.search(formula) or re.search(r"(?<!\\)[%#$~`]", bare):
        return False
    names = [word if word else symbol for word, symbol in _COMMAND.findall(formula)]
    environments = _ENVIRONMENT.findall(formula)
    return (
        not formula.rstrip().endswith("\\")
        and all(name in _COMMANDS or name in _SYMBOLS for name in names)
        and all(name in _ENVIRONMENTS for name in environments)
        and sum(name in ("begin", "end") for name in names) == len(environments)
    )


def _closing_brace(text: str, start: int) -> int | None:
    depth = 0
    for place in range(start, min(len(text), start + _LONGEST)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place + 1
    return None


def _lines(text: str) -> str:
    """Return escaped text with its line breaks."""
    return "  \n".join(_words(line) for line in re.split(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text))


def _words(line: str) -> str:
    words = (
        _code(each) if _REWRITTEN.search(each) else escaped(each)
        for each in re.split(r"(\s+)", visible(line))
    )
    return "".join(words)


def _code(word: str) -> str:
    longest = max((len(run) for run in re.findall("`+", word)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {word} {fence}" if longest else f"`{word}`"
