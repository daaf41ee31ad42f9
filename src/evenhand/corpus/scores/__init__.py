"""From counts to bias scores, their baseline, intervals and the regression on another text."""
