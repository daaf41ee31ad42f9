"""Measures of decisions about members of groups, in tables of predictions."""
