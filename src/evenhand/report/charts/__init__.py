"""Charts as plain Vega-Lite data, one function each; `draw` makes SVG or PNG of any of them without a browser."""

from evenhand.report.charts.axis import axis_extremes
from evenhand.report.charts.forest import effect_forest
from evenhand.report.charts.style import colours, png, svg
from evenhand.report.charts.tradeoff import tradeoff

__all__ = ["axis_extremes", "colours", "effect_forest", "png", "svg", "tradeoff"]
