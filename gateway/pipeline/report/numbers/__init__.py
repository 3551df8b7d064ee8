"""Computes the report's numbers from the tables. Everything kept here has a named limit.

A `Digest` sums up the tables of any number of groups; digests are added up. `whole` makes the
report from the digest of everything.
"""
