"""Methods that rotate or rescale directions against each other: OSCaR and BAM."""
