"""The fold: ordered lines of one group in, rows of all tables and a state out. Pure, without Spark.

`lines` parses a line, `history` orders the lines of a group, `tables` makes the rows of all tables.
`sightings` tells what is known of members. Each other module makes one table or a few that belong
together.
"""
