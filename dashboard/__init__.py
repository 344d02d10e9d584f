"""The web pages. They only read, and they import no other package of prmcal than `prmcal.db`.

    app        navigation between the pages, and messages while there are no results
    views      one module for each page; views.parts has the parts that pages are composed of
    controls   widgets with which a reader selects, filters, pages and downloads
    charts     Altair charts with the tables that they draw and the sentences that state what they show
    formats    numbers, names, foreign text and formulas as Markdown
    reproduction    the grid and the commands that reproduce a cell
    data       cached queries of the published database
    live       questions to the server of `prmcal serve`
    serving    the web server, and screenshots of all pages

Imports go in one direction: views, views.parts, controls, charts, formats and data. Only
``__main__``, tests and benchmarks import `serving`.
"""
