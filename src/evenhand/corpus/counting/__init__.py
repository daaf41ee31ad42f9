"""Count words: tokens, windows and accumulators."""
