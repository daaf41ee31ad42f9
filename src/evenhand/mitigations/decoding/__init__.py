"""Methods that change what a language model predicts, not its weights."""
