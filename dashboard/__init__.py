"""The web pages. They only read, and they import no other package of prmcal than `prmcal.db`.

    app        navigation between the pages, and messages while there are no results
    views      one module for each page, and `shared` for what several pages show
    controls   widgets with which a reader selects, filters and downloads, and cached queries
    charts     Altair charts, the tables that they draw, and the sentences that state what they show
    formats    numbers, names, foreign text and formulas as Markdown
    script     the script that Streamlit runs; `__main__` starts its server

Imports go in one direction: views, controls, charts and formats. Nothing imports `script`.
"""
