"""Measures that compare how near words are to sets of words. Directions belong in `geometry`."""
