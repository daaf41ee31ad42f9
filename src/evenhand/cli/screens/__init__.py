"""What the terminal shows of each kind of result."""
