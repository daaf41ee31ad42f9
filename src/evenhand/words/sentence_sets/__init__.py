"""Readers of published sets of sentences about groups of people, one module per set; each takes the folder or file."""
