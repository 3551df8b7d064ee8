"""Data structures that a step can write without touching the original."""
