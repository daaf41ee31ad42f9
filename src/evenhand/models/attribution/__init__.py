"""Which layers, positions and tokens of a network decide how it scores two sentences differently.

`cases` says what is asked, `patching` and `gradients` compute it, `pairs` puts it together for one pair or many.
"""
