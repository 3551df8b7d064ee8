"""Sums the rows up for a verdict and for one page. Needs no Spark."""
