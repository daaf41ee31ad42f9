"""The architectures that can be trained, one module each: stacks of members of one shape.

A network class registers itself in `stacked.ARCHITECTURES` and names the model class that its weights make.
"""
