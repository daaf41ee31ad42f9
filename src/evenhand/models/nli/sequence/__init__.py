"""Sequence classifiers of `transformers`: loading, label order, and the pairs of a probe without saying them twice."""
