"""Measures of a stream of documents: a corpus, or what a language model writes."""
