"""The report's numbers, asked of the tables. Whatever is collected here has a limit by name.

Each module makes one part of the `Report`; `whole` puts them together.
"""
