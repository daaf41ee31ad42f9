"""To and from other libraries' objects: gensim, spaCy, Hugging Face, scikit-learn; one file for each.

Files on disk belong in `models.vectors.formats`; nothing here is imported before it is asked for.
"""
