"""Decisions about people: situations with a slot for a person, and who fills it, explicitly or by a first name."""
