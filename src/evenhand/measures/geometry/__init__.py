"""Measures that ask where words lie: along a direction, in clusters, among neighbours."""
