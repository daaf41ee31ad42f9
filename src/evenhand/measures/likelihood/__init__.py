"""Measures of the probabilities that a language model gives to texts."""
