"""The tables: one module for each, with the model of its rows."""
