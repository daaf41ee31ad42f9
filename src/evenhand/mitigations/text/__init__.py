"""Methods that change text, and the text changes they return."""
