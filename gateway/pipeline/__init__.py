"""Says from the gateways' events whether a migration was safe, and shows what it cost.

The input is the JSON lines (`gateway/events/`) of any number of gateways and runs, in any order,
some repeated or missing. The output is a verdict, a page and tables:

    lines of one group --> fold --> rows --> report --> verdict and page
                                     |
                                     +--> tables (Parquet, `tables.py`)

- `fold/` knows what the events of a group mean. It orders the lines, by sequence numbers within a
  log, and by stated generations or clocks between logs. Then it replays who held each partition and
  what was committed, and makes the rows of all tables, its findings among them. Pure Python.
- `report/` adds up the rows of many groups, and judges: SAFE, NOT SAFE or NOT PROVEN.
- `spark/` only brings the lines of each group together, where they do not fit one process. Nothing
  else needs PySpark and Java.

The rows are the same wherever the fold runs: `quick_verdict.py` in memory, for the verdict alone;
`command.py` in this process for small inputs, on Spark for others; `following.py` for lines that
still arrive, with what it keeps of each group.

Three rules always hold. A fault is certain only if no missing or later line can explain it, and
where one is merely possible the verdict is not SAFE. A line that cannot be read is counted. A run
that is killed leaves each file of the output as it was, or complete (`folder.py`).
"""


class PipelineError(Exception):
    """A run cannot start or continue. The message is one line that says what to do."""
