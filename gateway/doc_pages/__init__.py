"""Writes the pages of the documentation that follow from the code."""
