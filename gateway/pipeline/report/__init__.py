"""What the tables say, for people: the numbers as JSON and one page of HTML that needs no network.

`numbers` asks the tables and makes a `Report`; all other modules know only that model.
"""
