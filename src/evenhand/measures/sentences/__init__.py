"""Measures of sentence vectors."""
