"""Analyses migrations from the gateways' events.

From the inside out: `fold` turns the lines of a group into the rows of all tables, in plain Python.
`report` sums the rows up for page and verdict. `spark` brings the lines of each group together, and
writes tables and report; only `spark` needs PySpark. `quick_verdict` does without it.
"""


class PipelineError(Exception):
    """A run cannot start or continue. The message is one line that says what to do."""
