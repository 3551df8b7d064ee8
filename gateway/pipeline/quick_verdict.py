"""`groupferry verdict`: the report's verdict on files of this machine, without Spark and Java.

Everything is folded in this process and in memory, so the input has a limit.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.loading import without_garbage_collection
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.folding import SourceLine, fold_lines
from gateway.pipeline.fold.rows import Tables
from gateway.pipeline.local_files import files, open_file, text_of, uri_of
from gateway.pipeline.progress import new_progress
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.report.verdict import SafetyVerdict, judge

BYTES_MAX = 128 << 20
"""All files together, unpacked: about 300,000 events, which take a minute and 2 GB of memory."""


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
        raise PipelineError(f"no file in {', '.join(inputs)}")
    size = sum(Path(path).stat().st_size for path in paths)
    for path in paths:
        name = uri_of(path)
        try:
            with open_file(path) as file:
                size -= Path(path).stat().st_size
                for number, data in enumerate(file, 1):
                    size += len(data)
                    if size > BYTES_MAX:
                        raise PipelineError(
                            f"{', '.join(inputs)}: the events are more than {BYTES_MAX >> 20} MiB:"
                            " use groupferry report"
                        )
                    yield SourceLine(name, f"line {number}", text_of(data, is_first=number == 1))
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise PipelineError(f"cannot read {path}: {reason}") from None
