"""`groupferry report`: from events to tables, a page, and a verdict.

Owns what is said about it. Needs Spark: whoever imports this has asked for it.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from gateway.pipeline.batch import make_tables
from gateway.pipeline.errors import PipelineError
from gateway.pipeline.folders import Folder
from gateway.pipeline.report.writing import PAGE, write_report
from gateway.pipeline.session import open_session
from gateway.pipeline.tables.catalog import ALL_ROWS
from gateway.pipeline.verdict import judge


def run(
    inputs: Sequence[str],
    output: str,
    *,
    top: int,
    master: str | None,
    settings: Mapping[str, str],
) -> bool:
    """Whether nothing was found that must not be. Raises PipelineError."""
    _keep_apart(inputs, output)
    with open_session("groupferry report", master=master, settings=settings) as spark:
        folder = Folder(spark, output)
        tables = make_tables(spark, inputs, folder)
        verdict = judge(
            ownership=tables["ownership"],
            offsets=tables["offsets"],
            sequences=tables["sequences"],
        )
        write_report(tables, ALL_ROWS, folder, top)
    told = (*verdict.lines, f"{folder.path}/{PAGE}")
    sys.stdout.write("".join(f"{line}\n" for line in told))
    return verdict.is_safe


def _keep_apart(inputs: Sequence[str], output: str) -> None:
    """The tables are no events: a later run must not take them for some."""
    for each in inputs:
        if Path(output).resolve().is_relative_to(Path(each).resolve()):
            raise PipelineError(f"--output {output} is inside {each}: choose another folder")
