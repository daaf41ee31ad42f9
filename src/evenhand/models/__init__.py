"""Whom we ask: word vectors now; NLI models, encoders and language models as they arrive.

What is measured on a model belongs in `measures`, what changes one in `mitigations`.
"""
