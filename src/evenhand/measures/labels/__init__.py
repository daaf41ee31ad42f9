"""Measures of text classifiers."""
