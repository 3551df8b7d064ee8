"""`groupferry verdict`: the report's verdict on files of this machine, without Spark and Java.

Everything is folded in this process and in memory, so the input has a limit.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gateway.loading import without_garbage_collection
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.tables import SourceLine, fold_lines
from gateway.pipeline.local_files import files, text_of, uri_of
from gateway.pipeline.report.digest import Digest
from gateway.pipeline.report.verdict import Verdict, judge

BYTES_MAX = 128 << 20
"""All files together: about 300,000 events, which take a minute and 2 GB of memory."""


def quick_verdict(inputs: Sequence[str]) -> Verdict:
    """Judge the events in these files, folders and patterns. Raises PipelineError."""
    digest = Digest(top=1)
    with without_garbage_collection():
        for part in fold_lines(_lines(_checked(inputs))):
            digest.add(part.key, part.tables, is_last=part.is_last)
    digest.cut()
    return judge(digest)


def _checked(inputs: Sequence[str]) -> Sequence[str]:
    """The files, if they are plain text within the limit."""
    found = files(inputs)
    if not found:
        raise PipelineError(f"no file in {', '.join(inputs)}")
    for path in found:
        if path.endswith(".gz"):
            raise PipelineError(f"{path} is compressed: use groupferry report")
    size = sum(Path(path).stat().st_size for path in found)
    if size > BYTES_MAX:
        raise PipelineError(
            f"{', '.join(inputs)}: {size >> 20} MiB of events are more than {BYTES_MAX >> 20} MiB:"
            " use groupferry report"
        )
    return found


def _lines(paths: Sequence[str]) -> Iterator[SourceLine]:
    for path in paths:
        name = uri_of(path)
        try:
            with Path(path).open("rb") as file:
                for number, data in enumerate(file, 1):
                    text = text_of(data, is_first=number == 1)
                    yield SourceLine(name, f"line {number}", text)
        except OSError as error:
            raise PipelineError(f"cannot read {path}: {error.strerror}") from None
