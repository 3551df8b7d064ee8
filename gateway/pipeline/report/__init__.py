"""The report for people: the numbers as JSON, one HTML page that needs no network, and a verdict.

`digest` sums up the rows of many groups, and turns the sums into the `Report` of `model`. The page
is made from that alone.
"""
