"""Methods that remove or shrink directions: linear, span, hard, soft, double-hard and MISP."""
