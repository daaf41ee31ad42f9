"""Text from files, folders and addresses as one stream of documents; one short file for each kind of file."""

from evenhand.corpus.readers.read_log import Account
from evenhand.corpus.readers.source import Corpus, Texts

__all__ = ["Account", "Corpus", "Texts"]
