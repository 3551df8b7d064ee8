"""`groupferry verdict`: the report's verdict on files of this machine, without Spark and Java.

Everything is folded in this process and in memory, so the input has a limit.
"""

import sys
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from gateway.loading import without_garbage_collection
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.folding import SourceLine, fold_lines
from gateway.pipeline.fold.rows import Tables
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.report.verdict import SafetyVerdict, judge
from gateway.pipeline.sources import cannot_read, files, fit, open_file, text_of, uri_of

BYTES_MAX = 128 << 20
"""All files together, unpacked: about 200,000 events, which take ten seconds and 300 MB."""


def quick_verdict(inputs: Sequence[str]) -> SafetyVerdict:
    """Judge the events in these files, folders and patterns. Raises PipelineError."""
    summary = Summary()
    for tables in fold_here(inputs):
        summary.add(tables)
    return judge(summary)


def fold_here(inputs: Sequence[str]) -> Iterator[Tables]:
    """The rows of all tables. Raises PipelineError."""
    with without_garbage_collection(), new_progress("lines") as progress:
        reading, folding = progress.add_task("read", total=None), progress.add_task("judge")
        judged = 0
        for tables in fold_lines(progress.track(_lines(inputs), task_id=reading)):
            yield tables
            judged += len(tables.groups)
            progress.update(folding, completed=judged)


def _lines(inputs: Sequence[str]) -> Iterator[SourceLine]:
    paths = files(inputs)
    if not paths:
        raise PipelineError(f"no file in {', '.join(inputs)}: give the folder events of a gateway")
    if not fit(paths, BYTES_MAX):
        raise PipelineError(
            f"{', '.join(inputs)}: the events are more than {BYTES_MAX >> 20} MiB:"
            " use groupferry report"
        )
    for path in paths:
        name = uri_of(path)
        with cannot_read(path), open_file(path) as file:
            for number, data in enumerate(file, 1):
                yield SourceLine(name, f"line {number}", text_of(data, is_first=number == 1))


def new_progress(unit: str) -> Progress:
    """Progress bars on standard error, which are removed at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    )
