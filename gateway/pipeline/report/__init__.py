"""The report for people: the numbers as JSON, and one HTML page that needs no network.

`numbers` queries the tables and makes a `Report`. All other modules depend on that model only.
"""
