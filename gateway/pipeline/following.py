"""What `--follow` keeps, so that a round costs what its lines cost.

Each group's lines are folded once. What stays of them is the fold of all but the last few and those
of the last minute, these lines, and the rows. A round takes up the groups that it has lines of, and
replaces their rows in the tables. All lines stay as well: a group with a late line, or in several
logs, is folded again from all of its lines.

Everything is in one SQLite database, so that a round counts once or not at all. The files of tables
are made from it: the next run writes those that a killed one has left.
"""

import pickle
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, reduce
from importlib.metadata import version
from itertools import chain, starmap, takewhile
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from zlib import compress, crc32, decompress

import pyarrow as pa
from pydantic_core import from_json, to_json

from gateway.loading import without_garbage_collection
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.folding import (
    BUFFERED_MS,
    FILE,
    GATEWAY,
    GROUP,
    GroupLines,
    Item,
    ItemKey,
    LogFold,
    SourceLine,
    clusters_of,
    fold_in_memory,
    read_items,
    share_of,
    unread_rows,
)
from gateway.pipeline.fold.lines import Line
from gateway.pipeline.fold.order import OutOfOrderError, key_of
from gateway.pipeline.fold.rows import Tables
from gateway.pipeline.fold.sequences import RunKey, RunsFold
from gateway.pipeline.folder import DATABASE, Folder
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.sources import Offsets
from gateway.pipeline.tables import (
    FOLDED_TABLES,
    SCHEMAS,
    Place,
    arrow_table,
    by_place,
    empty_files,
    parquet_of,
    write_files,
)
from gateway.readable import DAY_MS

SHELVES = 8
"""The rows of a place are spread over this many files by what they are about, so that few others
are written with them."""


class Subject(NamedTuple):
    """What is folded together: a group, the processes of a gateway, or lines of a file that cannot
    be read."""

    kind: int
    name: str

    @property
    def shelf(self) -> int:
        """The number of the files with its rows."""
        return share_of(self.name, SHELVES)


Items: TypeAlias = Mapping[ItemKey, list[Item]]
"""What lines say about one subject. A gateway has a key for each of its processes."""


class History:
    """Everything about a subject that further lines need, as long as they come in their order."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._log = LogFold(subject.name)
        self._runs = RunsFold(subject.name)
        self._waiting: dict[ItemKey, list[Item]] = {}
        """The numbers of each process in its last minute: the partitions of a topic are read one
        after the other."""
        self._rows = Tables()
        """Rows of lines that cannot be read."""

    def take(self, items: Items) -> None:
        """Take further items. Raises OutOfOrderError."""
        if self._subject.kind == GATEWAY:
            for key, numbers in items.items():
                waiting = sorted({*self._waiting.get(key, ()), *numbers})
                recent_ms = max(number.at_ms for number in waiting) - BUFFERED_MS
                ready = next(n for n, number in enumerate(waiting) if number.at_ms >= recent_ms)
                self._runs.take(RunKey(*key[1:]), waiting[:ready])
                self._waiting[key] = waiting[ready:]
        elif self._subject.kind == FILE:
            self._rows.extend(join(map(unread_rows, items.values())))
        else:
            self._log.take(lines_of(items))

    def finish(self) -> Tables:
        """All rows, as if nothing followed. Raises OutOfOrderError."""
        for key, numbers in self._waiting.items():
            self._runs.take(RunKey(*key[1:]), numbers)
        others = [*self._log.finish(), Tables(unread=[*self._runs.finish()])]
        return join([self._rows, *others])


def lines_of(items: Items) -> GroupLines:
    """The lines of a group."""
    return GroupLines(sorted(chain(*items.values())))


def join(parts: Iterable[Tables]) -> Tables:
    """The rows of all parts."""
    rows = Tables()
    for tables in parts:
        rows.extend(tables)
    return rows


class Folded(NamedTuple):
    """A subject after a round, with all of its rows."""

    history: bytes | None
    """What to fold further lines of the subject from; null if they need all of its lines."""
    rows: Tables


def fold_items(history: History, items: Items) -> Folded:
    """Take further items of a subject. Raises OutOfOrderError."""
    history.take(items)
    return Folded(pickle.dumps(history), history.finish())


def fold_all_items(subject: Subject, items: Items) -> Folded:
    """Fold all items of a subject."""
    with suppress(OutOfOrderError):
        return fold_items(History(subject), items)
    return Folded(None, join(fold_in_memory(subject.name, lines_of(items))))


_HERE = Path(__file__).parent
_PICKLED = sorted((*_HERE.parent.glob("events/*.py"), *_HERE.rglob("*.py")))
"""The sources of everything that a history has."""


@cache
def states_version() -> str:
    """Which groupferry wrote a database: its version, and a checksum of the code that reads
    histories, because they change between two versions as well."""
    checksum = reduce(lambda before, source: crc32(source.read_bytes(), before), _PICKLED, 0)
    return f"{version('groupferry')}+{checksum:08x}"


class StreamProgress(NamedTuple):
    """How far an output folder is."""

    offsets: Offsets = MappingProxyType({})
    """How far the sources have been read."""
    from_ms: int = 0
    """Older lines have been deleted, as far as nothing needs them."""
    version: str = ""
    """The version of the histories; empty before the first round. Every version has it last."""


_SCHEMA = """
create table if not exists subjects
    (kind, name, shelf, history blob, summary blob, primary key (kind, name));
create table if not exists items (kind, name, data blob);
create table if not exists rows (table_name, cluster, day, shelf, kind, name, data blob);
create table if not exists changed_files
    (table_name, cluster, day, shelf, primary key (table_name, cluster, day, shelf));
create index if not exists subjects_by_shelf on subjects (shelf);
create index if not exists items_by_subject on items (kind, name);
create index if not exists rows_by_subject on rows (kind, name);
create index if not exists rows_by_file on rows (table_name, cluster, day, shelf);
"""


class Following:
    """The contents of an output folder that grows."""

    def __init__(self, output: Folder, top: int, keep_days: int | None = None) -> None:
        """`top` is the number of groups with a section, and `keep_days` how long lines are kept
        (null: for ever). Raises PipelineError if another version has written the folder."""
        self._output = output
        self._top = top
        self._keep_days = keep_days
        self._sums: dict[int, Summary] = {}
        """The sums by shelf; those of a shelf that was not needed yet are missing."""
        self._database = sqlite3.connect(Path(output.path, DATABASE))
        self._query("create table if not exists progress (json)")
        written_by = self._progress().version
        if not written_by:
            write_files(output, empty_files())
        elif written_by != states_version():
            raise PipelineError(
                f"{output.path} was written by another groupferry ({written_by}):"
                " delete it, or choose another folder; either is made from what the sources still"
                " have"
            )
        self._database.executescript(_SCHEMA)
        self._write_changed_files()

    def _query(self, sql: str, *values: Any) -> list[Any]:
        return self._database.execute(sql, values).fetchall()

    def offsets(self) -> Offsets:
        """How far the sources have been read."""
        return self._progress().offsets

    def _progress(self) -> StreamProgress:
        for (stored,) in self._query("select json from progress"):
            return StreamProgress(*from_json(stored)[-len(StreamProgress._fields) :])
        return StreamProgress()

    def take_in(self, lines: Iterable[SourceLine], offsets: Offsets) -> Summary:
        """Take in the next lines. `offsets`: how far the sources have been read with them."""
        progress = StreamProgress(offsets, self._progress().from_ms, states_version())
        with without_garbage_collection():
            self._take(lines, progress)
            summary = self.summary()
            if self._keep_days is not None and summary.to_ms is not None:
                to_ms = min(summary.to_ms, int(time.time() * 1000))  # a clock may be far ahead
                from_ms = (to_ms // DAY_MS - self._keep_days) * DAY_MS
                if from_ms > progress.from_ms:
                    self._renew(progress._replace(from_ms=from_ms))
                    summary = self.summary()
        return summary

    def summary(self) -> Summary:
        """The summary of everything stored."""
        for shelf in range(SHELVES):
            if shelf not in self._sums:
                stored = self._query("select summary from subjects where shelf = ?", shelf)
                self._sums[shelf] = self._add_up(_load(data) for (data,) in stored)
        return self._add_up(self._sums.values())

    def _add_up(self, summaries: Iterable[Summary]) -> Summary:
        total = Summary(top=self._top)
        total.merge(*summaries)
        return total

    @contextmanager
    def _round(self, progress: StreamProgress) -> Iterator[None]:
        """Change subjects within the block: all of them, or none."""
        with self._database:
            yield
            self._query("delete from progress")
            self._query("insert into progress values (?)", to_json(progress).decode())
        self._write_changed_files()

    def _write_changed_files(self) -> None:
        """Write the files whose rows a round has changed."""
        for row in self._query("select * from changed_files"):
            *place, shelf = row
            schema, folder = SCHEMAS[place[0]], self._output / Place(*place).path
            query = "select data from rows where (table_name, cluster, day, shelf) = (?, ?, ?, ?)"
            stored = self._query(query, *row)
            rows = [pa.ipc.read_record_batch(data, schema) for (data,) in stored]
            if rows:
                table = pa.Table.from_batches(rows).combine_chunks()  # small ones take time
                folder.write_bytes(f"{shelf}.parquet", parquet_of(table))
            else:
                (folder / f"{shelf}.parquet").delete()
            self._sums.pop(shelf, None)
        with self._database:
            self._query("delete from changed_files")

    def _take(self, lines: Iterable[SourceLine], progress: StreamProgress) -> None:
        """Fold new lines."""
        subjects: dict[Subject, dict[ItemKey, list[Item]]] = {}
        for key, item in read_items(lines):
            if not _is_old(key, item, progress.from_ms):
                subject_items = subjects.setdefault(Subject(key.kind, key.name), {})
                subject_items.setdefault(key, []).append(item)
        with self._round(progress):
            for subject, items in subjects.items():
                self._put(subject, items, self._fold(subject, items))

    def _renew(self, progress: StreamProgress) -> None:
        """Delete old lines, and fold all others from their beginning: each group then begins with
        what it had at its last `group_loaded` before."""
        with self._round(progress):
            for subject in starmap(Subject, self._query("select kind, name from subjects")):
                items = since(self._stored_items(subject), progress.from_ms)
                self._query("delete from items where (kind, name) = (?, ?)", *subject)
                self._put(subject, items, fold_all_items(subject, items))

    def _fold(self, subject: Subject, items: Items) -> Folded:
        """Take up a subject that has further items. If they come late, they find their places among
        all."""
        stored = self._query("select history from subjects where (kind, name) = (?, ?)", *subject)
        if stored and stored[0][0] is not None:
            with suppress(OutOfOrderError):
                return fold_items(_load(stored[0][0]), items)
        return fold_all_items(subject, _merge((self._stored_items(subject), items)))

    def _put(self, subject: Subject, items: Items, folded: Folded) -> None:
        """Store further items of a subject, and what has become of it."""
        data = compress(pickle.dumps(items), 1)
        self._query("insert into items values (?, ?, ?)", *subject, data)
        summary = Summary(top=self._top)
        summary.add(folded.rows)
        state = subject.shelf, folded.history, pickle.dumps(summary)
        self._query("insert or replace into subjects values (?, ?, ?, ?, ?)", *subject, *state)
        query = "select * from rows where (kind, name) = (?, ?)"
        before = set(self._query(query, *subject))
        after = {
            (*place, subject.shelf, *subject, _packed_rows(name, rows))
            for name in FOLDED_TABLES
            for place, rows in by_place(name, getattr(folded.rows, name)).items()
        }
        self._query("delete from rows where (kind, name) = (?, ?)", *subject)
        self._database.executemany("insert into rows values (?, ?, ?, ?, ?, ?, ?)", after)
        files = {(*place, shelf) for *place, shelf, _kind, _name, _data in before ^ after}
        self._database.executemany("insert or ignore into changed_files values (?, ?, ?, ?)", files)

    def _stored_items(self, subject: Subject) -> Items:
        stored = self._query("select data from items where (kind, name) = (?, ?)", *subject)
        return _merge(_load(decompress(data)) for (data,) in stored)


def _load(data: bytes) -> Any:
    return pickle.loads(data)  # noqa: S301  (we wrote it)


def _packed_rows(name: str, rows: list[Any]) -> bytes:
    """Rows of a table, which all have its schema."""
    (batch,) = arrow_table(name, rows).to_batches()
    return bytes(batch.serialize())


def _merge(rounds: Iterable[Items]) -> Items:
    merged: dict[ItemKey, list[Item]] = {}
    for items in rounds:
        for key, new_items in items.items():
            merged.setdefault(key, []).extend(new_items)
    return merged


def since(items: Items, from_ms: int) -> Items:
    """The items of a subject without those that judge nothing since a time: a group begins with its
    last `group_loaded` before, and one number of a process stands for all before."""
    return {key: _ITEMS_SINCE[key.kind](its, from_ms) for key, its in items.items()}


def _is_old(key: ItemKey, item: Item, from_ms: int) -> bool:
    """Whether a line is older than those that are kept, as a repeat of a deleted one is."""
    if key.kind == GROUP:
        return bool(item[0] < from_ms)
    return key.kind == GATEWAY and bool(item.sequence) and item.at_ms < from_ms


def _lines_since(items: list[Item], from_ms: int) -> list[Item]:
    """Each group with the name begins with its last `group_loaded` before."""
    items.sort()
    lines = list(GroupLines(items))
    clusters = clusters_of(lines)

    def cluster_of(line: Line) -> str:
        return line.cluster_id or clusters[line.gateway_id]

    old = takewhile(lambda line: line.at_ms < from_ms, lines)
    loads = [(line.at_ms, key_of(line), line) for line in old if line.event == "group_loaded"]
    begins = {cluster_of(line): line for _at_ms, _key, line in sorted(loads, key=itemgetter(0, 1))}
    if not begins:
        return items
    pairs = zip(items, lines, strict=True)
    return [item for item, line in pairs if _is_since(line, begins.get(cluster_of(line)))]


def _is_since(line: Line, begin: Line | None) -> bool:
    """Whether a line has its place at or behind another one, in its own log or by its time."""
    if begin is None:
        return True
    if line.gateway_id == begin.gateway_id:
        return key_of(line) >= key_of(begin)
    return line.at_ms >= begin.at_ms


def _numbers_since(numbers: list[Item], from_ms: int) -> list[Item]:
    numbers.sort()
    old = [number for number in numbers if number.at_ms < from_ms]
    if not old or not old[-1].sequence:
        return numbers
    whole = old[-1]._replace(is_whole=True)
    return [whole, *(number for number in numbers if number.sequence > whole.sequence)]


_ITEMS_SINCE: Mapping[int, Callable[[list[Item], int], list[Item]]] = {
    FILE: lambda items, _from_ms: items,
    GROUP: _lines_since,
    GATEWAY: _numbers_since,
}
