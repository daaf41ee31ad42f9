"""Language models behind an OpenAI-compatible server: requests, what the server can do, and its answers as views.

Nothing here is specific to a measure. `subjects.endpoint` makes a subject of it.
"""
