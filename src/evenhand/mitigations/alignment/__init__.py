"""Methods that rotate directions or align groups of words without removing a subspace: OSCaR and BAM."""
