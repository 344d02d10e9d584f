"""The web pages. They only read, and they import no other package of prmcal than `prmcal.db`.

    app        navigation between the pages, and messages while there are no results
    views      one module for each page; views.parts has the parts that pages are composed of
    controls   widgets with which a reader selects, filters, pages and downloads
    charts     Altair charts and the style that they share
    text       numbers, names and model output as Markdown
    frames     DataFrames that charts and tables are drawn from
    data       cached queries of the published database
    live       questions to the server of `prmcal serve`
    serving    the web server, and screenshots of all pages

Imports go in one direction: views, views.parts, controls and charts, text and frames, data and live. Only
``__main__``, tests and benchmarks import `serving`.
"""
