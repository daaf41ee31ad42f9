"""What we show: the same rows for the terminal, the page and a notebook; charts as Vega-Lite data; one HTML file.

Nothing here computes a measure: it only reads records.
"""
