"""Methods that train new vectors: RAN, GP and GN-GloVe."""
