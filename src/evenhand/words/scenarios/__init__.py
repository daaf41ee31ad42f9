"""Decisions about people: situations with a slot for a person. Who fills it is in `words.persons`."""
