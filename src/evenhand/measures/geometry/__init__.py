"""Measures that ask where words lie: along a direction, in clusters, among neighbours."""

MEASURES = {
    "direct-bias": "direct_bias:direct_bias",
    "indirect-bias": "indirect_bias:indirect_bias",
    "midb": "midb:midb",
    "clustering": "clustering:clustering",
    "recoverability": "recoverability:recoverability",
    "neighbours": "neighbours:neighbours",
    "proximity-bias": "proximity_bias:proximity_bias",
    "gipe": "gipe:gipe",
    "sembias": "sembias:sembias",
    "occupation-share": "occupation_share:occupation_share",
}
