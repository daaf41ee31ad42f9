"""Readers that turn files, folders and addresses into one stream of documents; one module for each kind of file."""

from evenhand.corpus.readers.source import Corpus, Texts
from evenhand.corpus.readers.stream import ReadLog

__all__ = ["Corpus", "ReadLog", "Texts"]
