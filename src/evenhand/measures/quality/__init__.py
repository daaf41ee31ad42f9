"""Measures of what vectors are good for, which show the cost of a mitigation. Bias belongs elsewhere."""
