"""Measures of what vectors are good for, against which the cost of a mitigation shows. Bias belongs elsewhere."""

MEASURES = {
    "similarity": "similarity:similarity",
    "analogy": "analogy:analogy",
    "retention": "retention:retention",
}
