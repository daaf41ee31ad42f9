"""Sentence encoders: the protocol, transformers by layer, and averaged word vectors."""
