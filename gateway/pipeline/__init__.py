"""Analyses migrations from the gateways' events. The gateway never imports this package.

Plain Python, from the inside out: `parsing` reads a line, `history` orders the lines of a group,
`fold` makes the rows of all `tables` from it, and a `Digest` in `report` sums them up for page and
`verdict`. Spark brings the lines of each group together (`folding`, `analysis`); only what does
this needs PySpark.
"""
