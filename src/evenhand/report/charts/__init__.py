"""Charts as plain Vega-Lite data. A chart registers a function that returns a figure, or None if it does not apply."""

from evenhand.report.charts.figure import CHARTS, Figure, figures
from evenhand.report.charts.style import colours, png, svg

__all__ = ["CHARTS", "Figure", "colours", "figures", "png", "svg"]
