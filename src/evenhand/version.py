"""The version of this package, for records and `evenhand --version`."""

__version__ = "0.8.0"
