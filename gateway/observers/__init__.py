"""Observers of group requests and their answers. Each has a limit of its own; no answer depends on
them."""
