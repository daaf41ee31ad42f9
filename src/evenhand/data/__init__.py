"""The catalog of data sets and vectors, and how a copy of one is found or fetched.

Sets that a measure or a test reads belong here; word lists are facts and live in `evenhand.words`.
"""

from evenhand.data.catalog import Entry, File, catalog, get
from evenhand.data.fetch import fetch
from evenhand.data.local_copies import locate

__all__ = ["Entry", "File", "catalog", "fetch", "get", "locate"]
