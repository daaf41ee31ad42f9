"""Co-occurrence counts of all word pairs, and what is computed from them (PMI, genderedness)."""
