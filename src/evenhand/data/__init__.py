"""The catalog of data sets and vectors, and functions to locate and download them.

Word lists are part of the package; see `evenhand.words`.
"""

from evenhand.data.catalog import CatalogEntry, File, catalog, get
from evenhand.data.fetch import fetch
from evenhand.data.local_copies import locate

__all__ = ["CatalogEntry", "File", "catalog", "fetch", "get", "locate"]
