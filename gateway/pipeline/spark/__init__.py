"""Brings the lines of each group together on Spark, and writes tables and report."""
