"""Methods that make a concept unpredictable from the vectors: INLP, LEACE, R-LACE and half-sibling regression."""
