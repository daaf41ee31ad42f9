"""Methods that learn new vectors by gradient descent: RAN, GP and GN-GloVe."""
