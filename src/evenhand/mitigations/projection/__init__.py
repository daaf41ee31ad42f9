"""Methods that remove directions: linear, span, hard, soft, double-hard and MISP."""
