"""Co-occurrence counts of all word pairs, PMI and genderedness."""
