"""The architectures that can be trained, by name; each is a stack of members of one shape.

What a trained model does belongs one folder up: it needs no torch.
"""
