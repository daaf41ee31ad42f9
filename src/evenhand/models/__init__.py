"""The numerics of what is measured: word vectors, NLI models and language models.

Measures belong in `measures`, changes to models in `mitigations`.
"""
