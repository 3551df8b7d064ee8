"""What `--follow` keeps, so that a round costs what its lines cost.

Each group's lines are folded once. What stays of them is the fold of all but the last few and those
of the last minute, these lines, and the rows. A round takes up the groups that it has lines of, and
replaces their rows in the tables. The lines stay as well: a group of which a line comes late is
folded again from all of its lines, and one that several logs have is folded again in each round.

A round writes into a folder of its own, and then moves everything into place. A run that is killed
before it could begin with that takes the same lines in again; one that is killed later goes on.
"""

import pickle
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, reduce
from importlib.metadata import version
from itertools import chain, takewhile
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias
from zlib import compress, crc32, decompress

import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json, to_json

from gateway.loading import without_garbage_collection
from gateway.pipeline import PipelineError
from gateway.pipeline.fold.folding import (
    FILE,
    GATEWAY,
    GROUP,
    GroupLines,
    Item,
    ItemKey,
    LogFold,
    RunsFold,
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
    place_of,
    read_file,
)
from gateway.readable import DAY_MS

SHELVES = 8
"""Groups and gateways are spread over this many files of each kind."""
PARTS_MERGED = 16
"""This many parts of equal length are merged with the next one, which bounds their number."""


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
    """Everything about a subject that further lines need."""

    def __init__(self, subject: Subject, top: int, *, is_one_log: bool = True) -> None:
        self._subject = subject
        self._log = LogFold(subject.name) if is_one_log and subject.kind == GROUP else None
        self._runs = RunsFold()
        self._lines: list[Item] = []
        """All lines of a group that several logs have."""
        self.rows = Tables()
        """Rows that no later line changes."""
        self.summary = Summary(top=top)
        """The summary of these rows."""

    def take(self, items: Items) -> Tables:
        """Take further items. Returns the rows that no later one changes. Raises
        OutOfOrderError."""
        made: Iterable[Tables] = ()
        if self._subject.kind == GATEWAY:
            self._runs.take(items.items())
        elif self._subject.kind == FILE:
            made = map(unread_rows, items.values())
        elif self._log is not None:
            made = self._log.take(GroupLines(sorted(chain(*items.values()))))
        else:
            self._lines += chain(*items.values())
        new = self._sum(made)
        self.rows.extend(new)
        return new

    def finish(self) -> Tables:
        """All other rows, as if nothing followed. Raises OutOfOrderError."""
        if self._subject.kind != GROUP:
            return self._sum(self._runs.finish())
        if self._log is not None:
            return self._sum(self._log.finish())
        return self._sum(fold_in_memory(self._subject.name, GroupLines(self._lines)))

    def _sum(self, made: Iterable[Tables]) -> Tables:
        rows = Tables()
        for tables in made:
            rows.extend(tables)
            self.summary.add(tables)
        return rows


class SubjectState(NamedTuple):
    """What stays of a subject after a round."""

    history: bytes
    """Its history, which is read when it has further lines."""
    summary: Summary
    """The summary of all of its rows."""
    may_change: set[Place]
    """Where it has rows that further lines may change."""


class Folded(NamedTuple):
    """A subject after a round."""

    state: SubjectState
    rows: Tables
    """All of its rows."""
    changed: set[Place]
    """Where rows are new or gone."""


def fold_items(history: History, items: Items, before: Collection[Place]) -> Folded:
    """Take further items of a subject. `before`: where there are rows that may be gone. Raises
    OutOfOrderError."""
    new = history.take(items)
    packed = pickle.dumps(history)
    others = history.finish()
    may_change = set(places_of(others))
    changed = {*before, *places_of(new), *may_change}
    history.rows.extend(others)
    return Folded(SubjectState(packed, history.summary, may_change), history.rows, changed)


def places_of(rows: Tables) -> Iterator[Place]:
    """The places of rows of all tables."""
    for name in FOLDED_TABLES:
        for row in getattr(rows, name):
            yield place_of(name, row)


_PART = re.compile(r"(\d+)-(\d+)")
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
                self._sums[shelf] = self._sum(self._shelf(shelf))
        return self._add_up(self._sums.values())

    def _sum(self, states: Mapping[Subject, SubjectState]) -> Summary:
        return self._add_up(state.summary for state in states.values())

    def _add_up(self, summaries: Iterable[Summary]) -> Summary:
        total = Summary(top=self._top)
        for summary in summaries:
            total.merge(summary)
        return total

    def _shelf(self, shelf: int) -> dict[Subject, SubjectState]:
        data = self._output.read_bytes(f"shelves/{shelf}")
        return pickle.loads(data) if data is not None else {}  # noqa: S301  (we wrote it)

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
            subject = Subject(key.kind, key.name)
            of_shelf = shelves.setdefault(subject.shelf, {})
            of_shelf.setdefault(subject, {}).setdefault(key, []).append(item)
        with self._round(progress) as new:
            if progress.rounds == 1:
                for file in empty_files():
                    new.write(*file)
            for shelf, items in shelves.items():
                self._put(new, shelf, self._shelf(shelf), items, progress)

    def _renew(self, progress: StreamProgress) -> None:
        """Delete old lines, and fold all others from their beginning: each group then begins with
        what it had at its last `group_loaded` before."""
        with self._round(progress) as new:
            for shelf in range(SHELVES):
                stored = self._read_items(shelf)
                new.gone += [f"lines/{shelf}/{part}" for part, _weight in self._parts(shelf)]
                new.gone += [
                    f"{place.path}/{shelf}.parquet"
                    for name in FOLDED_TABLES
                    for place, files in list_files(self._output, name)
                    if f"{shelf}.parquet" in files
                ]
                items = {subject: since(its, progress.from_ms) for subject, its in stored.items()}
                self._put(new, shelf, {}, items, progress)
            new.gone = [file for file in new.gone if file not in new.files]

    def _put(
        self,
        new: Round,
        shelf: int,
        before: Mapping[Subject, SubjectState],
        items: Mapping[Subject, Items],
        progress: StreamProgress,
    ) -> None:
        """Fold the items of a shelf, and write what is new. `before`: its states; without any, none
        of its files counts."""
        folded = self._fold(shelf, before, items, progress.from_ms)
        states = {**before, **{subject: its.state for subject, its in folded.items()}}
        new.write("shelves", f"{shelf}", pickle.dumps(states))
        new.sums[shelf] = self._sum(states)
        rows, changed = Tables(), set[Place]()
        for its in folded.values():
            rows.extend(its.rows)
            changed |= its.changed
        for name in FOLDED_TABLES:
            at_places = by_place(name, getattr(rows, name))
            for place in changed:
                if place.table != name:
                    continue
                table = arrow_table(name, at_places.get(place, []))
                old = read_file(self._output / place.path, f"{shelf}.parquet") if before else None
                if old is not None:
                    table = pa.concat_tables([old.filter(_of_others(old, folded)), table])
                new.write(place.path, f"{shelf}.parquet", parquet_of(table))
        self._store(new, shelf, items, progress.rounds)

    def _fold(
        self,
        shelf: int,
        states: Mapping[Subject, SubjectState],
        items: Mapping[Subject, Items],
        from_ms: int,
    ) -> Mapping[Subject, Folded]:
        """Take up the subjects that have further items. Those that come late, as repeats of deleted
        ones do, find their places among all."""
        folded: dict[Subject, Folded] = {}
        late: dict[Subject, Collection[Place]] = {}
        for subject, its_items in items.items():
            history = History(subject, self._top)
            before: Collection[Place] = ()
            if subject in states:
                history = pickle.loads(states[subject].history)  # noqa: S301  (we wrote it)
                before = states[subject].may_change
            all_places = {*before, *places_of(history.rows)}
            if subject in states and _has_old_line(its_items, from_ms):
                late[subject] = all_places
                continue
            try:
                folded[subject] = fold_items(history, its_items, before)
            except OutOfOrderError:
                late[subject] = all_places
        stored = self._read_items(shelf) if states and late else {}
        for subject, before in late.items():
            all_items = dict(stored.get(subject, {}))
            for key, its in items[subject].items():
                all_items[key] = [*all_items.get(key, ()), *its]
            recent_items = since(all_items, from_ms)
            try:
                folded[subject] = fold_items(History(subject, self._top), recent_items, before)
            except OutOfOrderError:
                history = History(subject, self._top, is_one_log=False)
                folded[subject] = fold_items(history, recent_items, before)
        return folded

    def _parts(self, shelf: int) -> list[tuple[str, int]]:
        """The files with the items of a shelf in their order, each with the number of rounds whose
        items it has."""
        parts = map(_PART.fullmatch, (self._output / "lines" / f"{shelf}").names())
        return [(part[0], int(part[2])) for part in parts if part]

    def _read_part(self, shelf: int, part: str) -> Items:
        data = (self._output / f"lines/{shelf}").read_bytes(part)
        assert data is not None
        items: Items = pickle.loads(decompress(data))  # noqa: S301  (we wrote it)
        return items

    def _read_items(self, shelf: int) -> Mapping[Subject, Items]:
        """All items of a shelf."""
        items: dict[Subject, dict[ItemKey, list[Item]]] = {}
        for part, _weight in self._parts(shelf):
            for key, its_items in self._read_part(shelf, part).items():
                of_subject = items.setdefault(Subject(key.kind, key.name), {})
                of_subject.setdefault(key, []).extend(its_items)
        return items

    def _store(self, new: Round, shelf: int, items: Mapping[Subject, Items], number: int) -> None:
        """Store items of a shelf. Many small parts become one."""
        stored, weight = {key: its for of in items.values() for key, its in of.items()}, 1
        parts = [part for part in self._parts(shelf) if f"lines/{shelf}/{part[0]}" not in new.gone]
        while [its for _part, its in parts[-PARTS_MERGED:]] == [weight] * PARTS_MERGED:
            merged: dict[ItemKey, list[Item]] = {}
            same = [part for part, _weight in parts[-PARTS_MERGED:]]
            for batch in (*(self._read_part(shelf, part) for part in same), stored):
                for key, its in batch.items():
                    merged.setdefault(key, []).extend(its)
            stored, weight = merged, weight * (PARTS_MERGED + 1)
            new.gone += [f"lines/{shelf}/{part}" for part in same]
            del parts[-PARTS_MERGED:]
        new.write(f"lines/{shelf}", f"{number:09}-{weight}", compress(pickle.dumps(stored), 1))


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


def _has_old_line(items: Items, from_ms: int) -> bool:
    """Whether a group has a line from before a time."""
    return any(
        at_ms < from_ms for key, its in items.items() if key.kind == GROUP for at_ms, *_line in its
    )


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
