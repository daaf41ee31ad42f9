"""From text to counts: tokens, windows and the sums over them."""
