"""The architectures that can be trained, one module each: stacks of members of one shape.

A network class registers itself in `stacked.ARCHITECTURES` and names the class of the trained model, which registers
itself in `over_vectors.NLI_MODELS`.
"""
