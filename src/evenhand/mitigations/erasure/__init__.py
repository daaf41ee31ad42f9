"""Methods that make a concept unpredictable: INLP, LEACE, RLACE and half-sibling regression."""
