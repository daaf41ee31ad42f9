"""Charts as plain Vega-Lite data. A chart registers a function that returns a figure, or None if it does not apply."""

from evenhand.report.charts.figure import CHARTS, Figure, chart_info, figures, find_figure, register_chart, write_figure
from evenhand.report.charts.style import colours, pdf, png, svg

__all__ = [
    "CHARTS",
    "Figure",
    "chart_info",
    "colours",
    "figures",
    "find_figure",
    "pdf",
    "png",
    "register_chart",
    "svg",
    "write_figure",
]
