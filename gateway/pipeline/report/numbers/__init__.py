"""Computes the report's numbers from the tables. Everything collected here has a named limit.

Each module makes one part of the `Report`; `whole` combines them.
"""
