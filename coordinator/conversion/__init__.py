"""Conversions of a group between the two kinds, each as one atomic batch of records."""
