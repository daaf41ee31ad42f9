"""Measures that compare how near words are to two sets of words."""
