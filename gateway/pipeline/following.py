"""What `--follow` keeps, so that a round costs what its lines cost.

Each group's lines are folded once. What stays of them is the fold of all but the last few and those
of the last minute, these lines, and the rows. A round takes up the groups that it has lines of, and
replaces their rows in the tables. All lines stay as well, in files that only grow: a group of which
a line comes late, or that several logs have, is folded again from all of its lines.

A round writes into a folder of its own, and then moves everything into place. A run that is killed
before it could begin with that takes the same lines in again; one that is killed later goes on.
"""

import pickle
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, reduce
from hashlib import blake2b
from importlib.metadata import version
from itertools import chain, takewhile
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from zlib import compress, crc32, decompress

import pyarrow as pa
import pyarrow.compute as pc
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
from gateway.pipeline.folder import PROGRESS, ROUND, Folder
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.sources import Offsets
from gateway.pipeline.tables import (
    FOLDED_TABLES,
    Place,
    arrow_table,
    by_place,
    empty_files,
    list_files,
    parquet_of,
    read_file,
)
from gateway.readable import DAY_MS

SHELVES = 8
"""Groups and gateways are spread over this many files of each kind."""


class Subject(NamedTuple):
    """What is folded together: a group, the processes of a gateway, or lines of a file that cannot
    be read."""

    kind: int
    name: str

    @property
    def shelf(self) -> int:
        """The number of its file."""
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
        """Rows that no later line changes."""

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
            self._rows.extend(join(self._log.take(lines_of(items))))

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


class SubjectState(NamedTuple):
    """What stays of a subject after a round."""

    history: bytes | None
    """Its history, which is read when it has further lines; null if they need all of its lines."""
    summary: Summary
    """The summary of its rows."""
    checksums: bytes
    """A checksum of its rows at each place, packed like the history."""


class Shelf(NamedTuple):
    """What stays of the subjects of a shelf."""

    states: Mapping[Subject, SubjectState] = MappingProxyType({})
    lines_bytes: int = 0
    """The length of the file with their lines. What it has behind is of a round that was killed."""


class Folded(NamedTuple):
    """A subject after a round: its history as in SubjectState, and all of its rows."""

    history: bytes | None
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


READY = "ready"

_HERE = Path(__file__).parent
_PICKLED = sorted((*_HERE.parent.glob("events/*.py"), *_HERE.rglob("*.py")))
"""The sources of everything that a state has."""


@cache
def states_version() -> str:
    """Which groupferry wrote a folder: its version, and a checksum of the code that reads states,
    because they change between two versions as well."""
    checksum = reduce(lambda before, source: crc32(source.read_bytes(), before), _PICKLED, 0)
    return f"{version('groupferry')}+{checksum:08x}"


class StreamProgress(NamedTuple):
    """How far an output folder is."""

    offsets: Offsets = MappingProxyType({})
    """How far the sources have been read."""
    rounds: int = 0
    from_ms: int = 0
    """Older lines have been deleted, as far as nothing needs them."""
    version: str = ""
    """The version of the states."""


class Round:
    """New files, which wait in a folder of their own until all of them are there."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.files: list[str] = []
        self.gone: list[str] = []
        """Files to delete."""
        self.sums: dict[int, Summary] = {}
        """The new summary of each shelf."""

    def write(self, folder: str, name: str, data: bytes) -> None:
        """Write a file. `folder` is its folder in the output folder."""
        (self._folder / folder).write_bytes(name, data)
        self.files.append(f"{folder}/{name}")


class Following:
    """The contents of an output folder that grows."""

    def __init__(self, output: Folder, top: int, keep_days: int | None = None) -> None:
        """`top` is the number of groups with a section, and `keep_days` how long lines are kept
        (null: for ever)."""
        self._output = output
        self._new = output / ROUND
        self._top = top
        self._keep_days = keep_days
        self._sums: dict[int, Summary] = {}
        """By shelf; those of a shelf that was not needed yet are missing."""

    def offsets(self) -> Offsets:
        """How far the sources have been read. Raises PipelineError."""
        return self._progress().offsets

    def take_in(self, lines: Iterable[SourceLine], offsets: Offsets) -> Summary:
        """Take in the next lines. `offsets`: how far the sources have been read with them. Raises
        PipelineError."""
        progress = self._progress()
        with without_garbage_collection():
            progress = progress._replace(rounds=progress.rounds + 1, offsets=offsets)
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
                self._sums[shelf] = self._sum(self._shelf(shelf).states)
        return self._add_up(self._sums.values())

    def _sum(self, states: Mapping[Subject, SubjectState]) -> Summary:
        return self._add_up(state.summary for state in states.values())

    def _add_up(self, summaries: Iterable[Summary]) -> Summary:
        total = Summary(top=self._top)
        for summary in summaries:
            total.merge(summary)
        return total

    def _shelf(self, shelf: int) -> Shelf:
        data = self._output.read_bytes(f"shelves/{shelf}")
        return Shelf(*pickle.loads(data)) if data is not None else Shelf()  # noqa: S301  (we wrote it)

    def _progress(self) -> StreamProgress:
        """What has been taken in, after a round that was interrupted has been finished. Raises
        PipelineError if another version has written it."""
        if self._finish_round():
            self._sums.clear()
        stored = self._output.read_bytes(PROGRESS)
        if stored is None:
            return StreamProgress(version=states_version())
        progress = StreamProgress(*from_json(stored)[: len(StreamProgress._fields)])
        if progress.version != states_version():
            raise PipelineError(
                f"{self._output.path} was written by another groupferry ({progress.version}):"
                " delete it, or choose another folder; either is made from what the sources still"
                " have"
            )
        return progress

    @contextmanager
    def _round(self, progress: StreamProgress) -> Iterator[Round]:
        """Write new files within the block, and replace the old ones at its end."""
        new = Round(self._new)
        yield new
        new.write(".", PROGRESS, to_json(progress))
        self._new.write_bytes(READY, to_json((new.files, new.gone)))
        self._finish_round()
        self._sums.update(new.sums)

    def _finish_round(self) -> bool:
        """Move the files of a round into place if all are there. Returns whether they were."""
        ready = self._new.read_bytes(READY)
        if ready is not None:
            files, gone = from_json(ready)
            for file in files:
                if (self._new / file).exists():
                    (self._output / file).replace(self._new / file)
            for file in gone:
                (self._output / file).delete()
        self._new.delete()
        return ready is not None

    def _take(self, lines: Iterable[SourceLine], progress: StreamProgress) -> None:
        """Fold new lines."""
        shelves: dict[int, dict[Subject, dict[ItemKey, list[Item]]]] = {}
        for key, item in read_items(lines):
            if _is_old(key, item, progress.from_ms):
                continue
            subject = Subject(key.kind, key.name)
            of_shelf = shelves.setdefault(subject.shelf, {})
            of_shelf.setdefault(subject, {}).setdefault(key, []).append(item)
        with self._round(progress) as new:
            if progress.rounds == 1:
                for file in empty_files():
                    new.write(*file)
            for shelf, items in shelves.items():
                self._put(new, shelf, self._shelf(shelf), items)

    def _renew(self, progress: StreamProgress) -> None:
        """Delete old lines, and fold all others from their beginning: each group then begins with
        what it had at its last `group_loaded` before."""
        with self._round(progress) as new:
            for shelf in range(SHELVES):
                stored = self._read_items(shelf, self._shelf(shelf).lines_bytes)
                new.gone += [
                    f"{place.path}/{shelf}.parquet"
                    for name in FOLDED_TABLES
                    for place, files in list_files(self._output, name)
                    if f"{shelf}.parquet" in files
                ]
                items = {subject: since(its, progress.from_ms) for subject, its in stored.items()}
                self._put(new, shelf, Shelf(), items)
            new.gone = [file for file in new.gone if file not in new.files]

    def _put(self, new: Round, number: int, before: Shelf, items: Mapping[Subject, Items]) -> None:
        """Fold the items of a shelf, and write what is new. `before`: what it has; without any,
        none of its files counts."""
        folded = self._fold(number, before, items)
        states, changed = dict(before.states), set[Place]()
        rows: dict[Place, list[Any]] = {}
        for subject, (history, its_rows) in folded.items():
            checksums: dict[Place, bytes] = {}
            for name in FOLDED_TABLES:
                for place, at_place in by_place(name, getattr(its_rows, name)).items():
                    checksums[place] = blake2b(repr(at_place).encode(), digest_size=8).digest()
                    rows.setdefault(place, []).extend(at_place)
            if subject in states:
                old = pickle.loads(states[subject].checksums)  # noqa: S301  (we wrote it)
                changed |= {place for place, _checksum in old.items() ^ checksums.items()}
            else:
                changed |= checksums.keys()
            summary = Summary(top=self._top)
            summary.add(its_rows)
            states[subject] = SubjectState(history, summary, pickle.dumps(checksums))
        length = self._store(new, number, before.lines_bytes, items)
        new.write("shelves", f"{number}", pickle.dumps((states, length)))
        new.sums[number] = self._sum(states)
        file = f"{number}.parquet"
        for place in changed:
            table = arrow_table(place.table, rows.get(place, []))
            others = read_file(self._output / place.path, file) if before.states else None
            if others is not None:
                table = pa.concat_tables([others.filter(_of_others(others, folded)), table])
            new.write(place.path, file, parquet_of(table))

    def _fold(
        self, number: int, shelf: Shelf, items: Mapping[Subject, Items]
    ) -> Mapping[Subject, Folded]:
        """Take up the subjects that have further items. Those that come late find their places
        among all."""
        folded: dict[Subject, Folded] = {}
        late: list[Subject] = []
        for subject, its_items in items.items():
            try:
                folded[subject] = fold_items(_take_up(subject, shelf), its_items)
            except OutOfOrderError:
                late.append(subject)
        stored = self._read_items(number, shelf.lines_bytes, late) if late else {}
        for subject in late:
            all_items = _merge((stored.get(subject, {}), items[subject]))
            folded[subject] = fold_all_items(subject, all_items)
        return folded

    def _read_items(
        self, shelf: int, lines_bytes: int, subjects: Collection[Subject] | None = None
    ) -> Mapping[Subject, Items]:
        """The items of a shelf, of all subjects or of these."""
        rounds: dict[Subject, list[Items]] = {}
        if not lines_bytes:
            return {}
        with self._lines(shelf).open("rb") as file:
            while file.tell() < lines_bytes:
                for subject, data in pickle.load(file).items():  # noqa: S301  (we wrote it)
                    if subjects is None or subject in subjects:
                        items = pickle.loads(decompress(data))  # noqa: S301  (we wrote it)
                        rounds.setdefault(subject, []).append(items)
        return {subject: _merge(its) for subject, its in rounds.items()}

    def _store(
        self, new: Round, shelf: int, lines_bytes: int, items: Mapping[Subject, Items]
    ) -> int:
        """Store further items of a shelf behind those that are there. Returns the new length."""
        packed = {subject: compress(pickle.dumps(its), 1) for subject, its in items.items()}
        data = pickle.dumps(packed)
        if lines_bytes:
            with self._lines(shelf).open("ab") as file:
                file.truncate(lines_bytes)
                file.write(data)
        else:
            new.write("lines", f"{shelf}", data)
        return lines_bytes + len(data)

    def _lines(self, shelf: int) -> Path:
        return Path(self._output.path, "lines", f"{shelf}")


def _take_up(subject: Subject, shelf: Shelf) -> History:
    """The history of a subject. Raises OutOfOrderError."""
    if (state := shelf.states.get(subject)) is None:
        return History(subject)
    if state.history is None:
        raise OutOfOrderError
    history: History = pickle.loads(state.history)  # noqa: S301  (we wrote it)
    return history


def _merge(rounds: Iterable[Items]) -> Items:
    merged: dict[ItemKey, list[Item]] = {}
    for items in rounds:
        for key, its_items in items.items():
            merged.setdefault(key, []).extend(its_items)
    return merged


def _of_others(rows: pa.Table, subjects: Iterable[Subject]) -> pa.Array:
    """Which rows are not about these subjects."""
    names: dict[int, list[str]] = {GROUP: [], GATEWAY: [], FILE: []}
    for subject in subjects:
        names[subject.kind].append(subject.name)
    of_group = pc.is_in(rows["group_id"], pa.array(names[GROUP], pa.string()))
    if "file" not in rows.column_names:
        return pc.invert(of_group)
    of_gateway = pc.and_(
        pc.is_null(rows["group_id"]),
        pc.is_in(rows["gateway_id"], pa.array(names[GATEWAY], pa.string())),
    )
    of_file = pc.is_in(rows["file"], pa.array(names[FILE], pa.string()))
    is_line = pc.and_(pc.equal(rows["kind"], "line"), pc.is_null(rows["group_id"]))
    return pc.invert(pc.if_else(is_line, of_file, pc.or_(of_group, of_gateway)))


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
