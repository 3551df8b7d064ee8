"""The fold: ordered lines of one group in, rows of all tables out. Pure, without Spark.

`lines` parses a line, `order` places the lines of a group, `group` folds them, `rows` lists the
tables, and `folding` does all of it for the lines of many groups.
"""
