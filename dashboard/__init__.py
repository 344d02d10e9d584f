"""The web pages. They only read, and they import no other package of prmcal than `prmcal.db`.

    app        navigation between the pages, and messages while there are no results
    views      one module for each page, and `shared` for what several pages show
    controls   widgets with which a reader selects, filters, pages and downloads
    charts     Altair charts with the tables that they draw and the sentences that state what they show
    formats    numbers, names, foreign text and formulas as Markdown
    data       cached queries of the published database
    script     the script that Streamlit runs; `__main__` starts its server

Imports go in one direction: views, controls, charts, formats and data. Nothing imports `script`.
"""
