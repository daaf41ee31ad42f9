"""Logs of other evaluation tools as records: what their bias tasks asked a model, with our intervals and tests."""
