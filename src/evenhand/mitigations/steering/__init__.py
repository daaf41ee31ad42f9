"""Methods that act on the activations of a language model along one direction: add it, or remove it everywhere."""
