"""Measures that ask where words lie relative to a direction or subspace."""
