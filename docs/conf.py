"""The configuration of Sphinx, which builds the documentation from the pages in this folder."""

import sys
from pathlib import Path

import prmcal

# The parts that are written from the code are made by modules beside the pages.
sys.path.insert(0, str(Path(__file__).parents[1]))

project = "prmcal"
author = "The prmcal authors"
project_copyright = "the prmcal authors"
version = release = prmcal.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "docs.generators.extension",
]
exclude_patterns = ["nano", "pools"]

# Pages are Markdown. Every heading has an address, so that links to it are checked.
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# Docstrings describe the types of parameters, so signatures are short.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Every reference in a page or a docstring must lead somewhere. The words of a type, such as "optional", lead nowhere.
nitpicky = True
nitpick_ignore_regex = [("py:(class|exc)", r"(?!prmcal\.).*")]

html_title = f"prmcal {version}"
html_theme = "furo"
html_math_renderer = "mathml"  # Needs neither JavaScript nor a network.
html_static_path = ["_static"]
html_css_files = ["prmcal.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style, pygments_dark_style = "friendly", "github-dark"
copybutton_exclude = ".linenos, .gp, .go"
