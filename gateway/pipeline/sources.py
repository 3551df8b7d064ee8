"""The events of a report: files, folders and patterns, and a topic.

`--follow` reads what has grown since: a gateway keeps appending to its newest file. Offsets say how
far everything has been read, in bytes of a file or records of a partition. Deleted files are
forgotten, and new files are found, also in subfolders. A line is read once it is complete.
"""

import bz2
import codecs
import glob
import gzip
import os
import re
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from gateway.pipeline import PipelineError
from gateway.pipeline.fold.folding import SourceLine
from gateway.pipeline.fold.lines import LINE_BYTES_MAX
from gateway.pipeline.folder import is_local_path
from gateway.pipeline.topic import SILENCE_S_MAX, EventsTopic, Span, read_span
from gateway.state_folder import LOOK_AT_FILE

HERE_BYTES_MAX = 16 << 20
"""About 30,000 events."""
ROUND_BYTES_MAX = 64 << 20
ROUND_RECORDS_MAX = 100_000
"""What a round reads of files, and of a topic."""
ELECTION_S = 5.0
"""How long a new leader may take to know the end of its partition."""
_FOR_SPARK = frozenset((".zst", ".snappy", ".lz4", ".deflate", ".xz", ".parquet"))
"""Files that only Spark unpacks."""
_PACKED = (".gz", ".bz2")
_LOOK_BYTES = 64 << 10

Offsets: TypeAlias = Mapping[str, int]
"""How far each file and partition has been read."""


class Part(NamedTuple):
    """Bytes of a file."""

    path: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What there is behind some offsets, as far as one round reads it."""

    parts: Sequence[Part]
    spans: Sequence[Span]
    offsets: Offsets
    """How far everything has been read afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files and the topic to read. At least one of the two is given."""

    inputs: Sequence[str] = ()
    topic: EventsTopic | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The sources as the page names them."""
        return (*self.inputs, *([str(self.topic)] if self.topic else []))

    def fit_here(self) -> bool:
        """Whether this process makes the report itself, because Spark would take longer to start.
        Raises PipelineError."""
        is_here = self.topic is None and all(map(is_local_path, self.inputs))
        paths = files(self.inputs) if is_here else []
        is_readable = all(Path(path).suffix not in _FOR_SPARK for path in paths)
        return bool(paths) and is_readable and fit(paths, HERE_BYTES_MAX)

    def require_without(self, output: str) -> None:
        """Check that no source includes the output folder: tables must not be read as events.
        Raises PipelineError."""
        place = _local(output)
        ways = (Path(os.path.abspath(place)), Path(place).resolve())  # noqa: PTH100  (with links)
        folders = {folder for way in ways for folder in (way, *way.parents)}
        for name in self.inputs:
            if _has_any(name, folders):
                raise PipelineError(f"--output {output} is inside {name}: choose another folder")

    def find_growth(self, offsets: Offsets, room: int = ROUND_BYTES_MAX) -> Growth:
        """The lines that have been added since these offsets. Raises PipelineError."""
        parts: list[Part] = []
        reached: dict[str, int] = {}
        piece = min(LINE_BYTES_MAX, room)
        for path in files(self.inputs):
            with suppress(FileNotFoundError):
                begin = offsets.get(path, 0)
                ready = whole_lines(path, begin, room, piece) if room else 0
                reached[path] = begin + ready
                room -= ready
                if ready:
                    parts.append(Part(path, begin, begin + ready))
        spans: list[Span] = []
        records = ROUND_RECORDS_MAX
        for name, number, first, last in _spans_behind(self.topic, offsets) if self.topic else ():
            begin = max(first, offsets.get(name, first))
            reached[name] = min(last, begin + records)
            records -= reached[name] - begin
            if begin < reached[name]:
                spans.append(Span(name, number, begin, reached[name]))
        return Growth(parts=parts, spans=spans, offsets=reached)

    def read(self, growth: Growth) -> Iterator[SourceLine]:
        """The lines of files that still exist, and of the topic. Raises PipelineError."""
        for part in growth.parts:
            with suppress(FileNotFoundError):
                yield from read_part(part)
        if self.topic is not None:
            config = self.topic.config()
            for span in growth.spans:
                yield from read_span(self.topic, config, span)


def _spans_behind(topic: EventsTopic, offsets: Offsets) -> Sequence[Span]:
    """All records of the topic whose offsets have been read. Raises PipelineError if there are
    fewer. A leader that has just been elected may say an earlier end for a moment."""
    spans = topic.spans(SILENCE_S_MAX)
    if _has_lost(spans, offsets):
        time.sleep(ELECTION_S)
        spans = topic.spans(SILENCE_S_MAX)
    if _has_lost(spans, offsets):
        raise PipelineError(
            f"{topic} ends before what was read of it, so it was recreated or has lost records:"
            " choose another folder"
        )
    return spans


def _has_lost(spans: Sequence[Span], offsets: Offsets) -> bool:
    return any(offsets.get(span.name, 0) > span.end for span in spans)


def files(inputs: Sequence[str]) -> list[str]:
    """The current files. Like Spark, this ignores names that begin with `.` or `_`."""
    paths: set[str] = set()
    for pattern in inputs:
        for path in map(os.path.abspath, glob.glob(pattern) or [pattern]):  # noqa: PTH207  (absolute)
            if Path(path).is_file():
                paths.add(path)
            for folder, below, names in os.walk(path):
                below[:] = filter(_is_shown, below)
                paths.update(f"{folder}/{name}" for name in names if _is_shown(name))
    return sorted(paths)


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def uri_of(path: str) -> str:
    """The file's name as Spark writes it."""
    return Path(path).as_uri().replace("file://", "file:", 1)


def text_of(data: bytes, *, is_first: bool) -> str:
    """A line without its line break. Invalid bytes are replaced, and the first line of a file loses
    a byte order mark."""
    data = data.removeprefix(codecs.BOM_UTF8) if is_first else data
    return data.removesuffix(b"\n").decode("utf-8", "replace")


def open_file(path: str) -> IO[bytes] | gzip.GzipFile | bz2.BZ2File:
    """The unpacked bytes of a file. One of another compression is read as it is, so that its lines
    cannot be read."""
    if path.endswith(".gz"):
        return gzip.open(path)
    return bz2.open(path) if path.endswith(".bz2") else Path(path).open("rb")


def fit(paths: Iterable[str], bytes_max: int) -> bool:
    """Whether all files together have at most this many bytes, unpacked. Raises PipelineError."""
    for path in paths:
        with cannot_read(path):
            if not path.endswith(_PACKED):
                bytes_max -= Path(path).stat().st_size
                continue
            with open_file(path) as file:
                while bytes_max >= 0 and (data := file.read(_LOOK_BYTES)):
                    bytes_max -= len(data)
    return bytes_max >= 0


@contextmanager
def cannot_read(path: str) -> Iterator[None]:
    """Name the file that cannot be read."""
    try:
        yield
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PipelineError(f"cannot read {path}: {reason}; {LOOK_AT_FILE}") from None


def whole_lines(path: str, begin: int, room: int, piece: int) -> int:
    """How many bytes from `begin` on are complete lines, at most `room`. An incomplete line of at
    least `piece` bytes counts as complete as far as it goes."""
    with Path(path).open("rb") as file:
        file.seek(begin)
        data = file.read(room)
    return data.rfind(b"\n") + 1 or (len(data) if len(data) >= piece else 0)


def read_part(part: Part) -> Iterator[SourceLine]:
    """The lines between two offsets of a file. Each has the place of its first byte."""
    name, at = uri_of(part.path), part.begin
    with Path(part.path).open("rb") as file:
        file.seek(at)
        while at < part.end and (data := file.readline(part.end - at)):
            yield SourceLine(name, f"byte {at}", text_of(data, is_first=at == 0))
            at += len(data)


def _has_any(given: str, folders: Collection[Path]) -> bool:
    """Whether an input covers one of the folders: by its path, a pattern, or a link."""
    for pattern in _alternatives(_local(given)):
        known = {Path(path).resolve() for path in (pattern, *glob.glob(pattern))}  # noqa: PTH207  (any)
        absolute = os.path.abspath(pattern)  # noqa: PTH100  (with links)
        if any(folder in known or folder.match(absolute) for folder in folders):
            return True
    return False


def _alternatives(pattern: str) -> Iterator[str]:
    """Expand braces, which `glob` does not support."""
    if (braces := re.search(r"\{([^{}]*)\}", pattern)) is None:
        yield pattern
    else:
        for part in braces[1].split(","):
            yield from _alternatives(pattern[: braces.start()] + part + pattern[braces.end() :])


def _local(path: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", path)
