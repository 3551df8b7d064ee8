"""The fold: ordered lines of one group in, rows of all tables out. Pure, without Spark.

`lines` parses a line, `order` and `sequences` place it among the others, `ownership`, `offsets` and
`figures` take it, `rows` lists the tables, and `folding` does all of it for the lines of many
groups.
"""
