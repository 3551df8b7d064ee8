"""A group changes its kind, each time as one atomic batch of records."""
