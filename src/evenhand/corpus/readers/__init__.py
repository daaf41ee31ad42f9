"""Readers that turn files, folders and addresses into one stream of documents; one module for each kind of file."""

from evenhand.corpus.readers.read_log import ReadLog
from evenhand.corpus.readers.source import Corpus, Texts

__all__ = ["Corpus", "ReadLog", "Texts"]
