"""Equations as MathML, which browsers show without JavaScript and without a network."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOGGER = logging.getLogger(__name__)


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    """Write an equation within a line."""
    translator.body.append(_written(node, as_block=False))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write an equation on lines of its own."""
    translator.body.append(f'<div class="math">{_written(node, as_block=True)}</div>')
    raise nodes.SkipNode


def _written(node: nodes.Element, as_block: bool) -> str:
    """Return an equation as MathML. Docutils knows most commands of LaTeX; a page with another one has a warning."""
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        _LOGGER.warning("The equation %s cannot be shown: %s", node.astext(), error, location=node)
        return ""
