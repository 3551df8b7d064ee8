"""A group changes its kind, or not: each time as one atomic batch of records."""
