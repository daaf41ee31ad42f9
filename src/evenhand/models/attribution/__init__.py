"""Which layers, positions and tokens of a network decide how it scores two sentences differently.

`cases` says what is asked, `patching` computes it, `pairs` puts it together for one pair or many.
"""
