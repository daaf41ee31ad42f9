"""Measures of what chat models answer: view `chat`."""
