"""Measures that ask where words lie: along a direction, in clusters, among neighbours."""

MEASURES = {
    "direct-bias": "direct_bias:direct_bias",
}
