"""Measures of decisions about members of groups, in tables or by classifiers of labelled texts."""
