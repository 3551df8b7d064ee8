"""Turns lines into tables and a digest, for a batch run and for a stream alike.

A stream goes on with the folds of the groups that a batch is about. Only rows that are closed are
stored by batches; the others replace those of their groups, and the states of their buckets come
last. A batch that was interrupted and is taken in again therefore gives the same result. A line
that comes too late for its group's fold makes the batch fold all lines of that group again.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from hashlib import blake2b
from itertools import groupby
from operator import and_, itemgetter
from typing import TypeAlias

import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from gateway.events.catalog import EVENTS
from gateway.pipeline.fold.lines import content_of
from gateway.pipeline.fold.ownership import OwnershipRow
from gateway.pipeline.fold.row import BaseRow, columns
from gateway.pipeline.fold.sequences import PROCESS_STATES
from gateway.pipeline.fold.tables import ALL_ROWS, STATES, Key
from gateway.pipeline.fold.timeline import TimelineRow
from gateway.pipeline.report.digest import Digest
from gateway.pipeline.report.group_story import INTERVALS_MAX, Span, names, ownership_map
from gateway.pipeline.report.model import MemberName, OwnershipMap, of_each
from gateway.pipeline.report.wording import DAY_MS
from gateway.pipeline.spark.folding import (
    CLOSED_AT_ONCE,
    FOLDED,
    IS_CLOSED,
    IS_NEW,
    KEPT,
    KEPT_ROW,
    continued,
    folded,
    struct_of,
    unpacked,
)
from gateway.pipeline.spark.output import BATCHES, Folder, States, Store
from gateway.pipeline.spark.packing import (
    BUCKET,
    DIGEST,
    GATEWAY,
    KEY,
    OF_GROUP,
    OF_PROCESS,
    PARSED,
    bucket_of,
    divided,
    map_in_arrow,
    parsed,
)

Drawing: TypeAlias = tuple[OwnershipMap, tuple[MemberName, ...]]

_DRAWING: TypeAdapter[Drawing] = TypeAdapter(Drawing)
_KEY = ("cluster_id", "group_id")
_DRAWN = StructType([StructField(name, StringType()) for name in (*_KEY, "drawn")])
_ROWS: Mapping[str, type[BaseRow]] = {
    "ownership": OwnershipRow,
    "timeline": TimelineRow,
}


def draw(tables: Mapping[str, DataFrame], digest: Digest) -> Mapping[Key, Drawing]:
    """The maps of the digest's worst groups whose partitions had owners."""
    end_ms = digest.figures.to_ms or 0
    spans = {each.key: (each.shown(end_ms), each.full_span(end_ms)) for each in digest.worst}
    if not spans:
        return {}
    some = [_struct(tables[name], name, spans) for name in _ROWS]
    rows = some[0].unionByName(some[1], allowMissingColumns=True)
    in_groups = rows.repartition(*_KEY).sortWithinPartitions(*_KEY)
    how = partial(_draw, spans=spans, intervals_max=of_each(INTERVALS_MAX, len(spans)))
    drawn = map_in_arrow(in_groups, how, _DRAWN)
    return {
        (row.cluster_id, row.group_id): _DRAWING.validate_json(row.drawn) for row in drawn.collect()
    }


def _struct(table: DataFrame, name: str, spans: Mapping[Key, object]) -> DataFrame:
    """The rows of the groups, each as one value."""
    buckets = sorted({bucket_of(group_id) for _, group_id in spans})
    groups = sorted({group_id for _, group_id in spans})
    its_rows = table.where(F.col(BUCKET).isin(buckets) & F.col("group_id").isin(groups))
    columns = F.struct(*struct_of(_ROWS[name]).names)
    return its_rows.select(*_KEY, columns.alias(name))


def _draw(
    batches: Iterable[pa.RecordBatch],
    spans: Mapping[Key, tuple[Span, Span]],
    intervals_max: int,
) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in batch.to_pylist())
    for key, some in groupby(rows, key=itemgetter(*_KEY)):
        if key not in spans:  # a group of the same name elsewhere
            continue
        its_rows = list(some)
        owned = (OwnershipRow(**row["ownership"]) for row in its_rows if row["ownership"])
        told = ownership_map(owned, *spans[key], intervals_max)
        if told is not None:
            timeline = (TimelineRow(**row["timeline"]) for row in its_rows if row["timeline"])
            drawn = _DRAWING.dump_json((told, names(told, timeline))).decode()
            row = dict(zip(_DRAWN.names, (*key, drawn), strict=True))
            yield pa.RecordBatch.from_pylist([row], to_arrow_schema(_DRAWN))


CLOSED = ("offsets", "wrong_starts", "rejected")
"""The tables with rows that no later line changes."""
_OPEN = f"{BATCHES}=open"
_TIMES = ("from_ms", "at_ms", "to_ms")
"""The first of these columns that is not null gives the time of a row."""


class Analysis:
    """The contents of an output folder."""

    def __init__(
        self, spark: SparkSession, output: Folder, top: int, keep_days: int | None = None
    ) -> None:
        """`top` is the number of groups with a section, and `keep_days` how long a stream keeps
        lines and closed rows (null: for ever)."""
        self._spark = spark
        self._top = top
        self._keep_days = keep_days
        self._new = output / "unfinished"
        self._complete = output / "complete"
        """Rows that replace those of tables: all of a batch, or the rest of them after a kill."""
        self._tables = output / "tables"
        self._lines = Store(output / "lines", PARSED, BUCKET)
        self._states = States(output / "states", _STATE, _shape())
        self._ended = self._states.folder / "ended"

    def make(self, lines: DataFrame) -> Digest:
        """Make all tables from these lines alone, in an empty folder."""
        rows = self._written(folded(parsed(lines), self._top), "folded")
        digest = self._sum(_digests(rows))
        self._tables.make()
        self._write(rows, self._tables, digest.rows)
        self._new.delete()
        return digest

    def take_in(self, lines: DataFrame, batch: int) -> Digest:
        """Take in the lines of a batch. The batches are numbered from 0."""
        if not self._states.has(batch):
            self._move_complete()
            self._new.delete()
            self._lines.append(parsed(lines), batch)
            is_anew = self.is_outdated()
            new = self._lines.rows(None if is_anew else range(batch, batch + 1))
            touched = sorted(row.bucket for row in new.select(BUCKET).distinct().collect())
            states = self._states.rows(touched).where(F.col("kind") != DIGEST)
            rows, late = self._continued(new, states, self._again())
            counts = self._sum(_digests(rows)).rows
            if is_anew:
                self._begin(rows, batch)
            else:
                for name in CLOSED:
                    self._store_closed(rows, late, name, batch)
            self._replace_open(rows, touched, counts)
            self._states.put(_states(rows), batch)
            self._trim(batch)
            self._new.delete()
        return self.digest()

    def is_outdated(self) -> bool:
        """Whether another version has left states that this one cannot go on with: the next batch
        folds all stored lines."""
        return self._states.are_outdated()

    def digest(self) -> Digest:
        """The digest of everything stored."""
        return self._sum(self._states.rows().where(F.col("kind") == DIGEST))

    def drawn(self, digest: Digest) -> Mapping[Key, Drawing]:
        """The ownership maps of the digest's worst groups."""
        return draw(self.tables(), digest)

    def tables(self) -> Mapping[str, DataFrame]:
        """All tables by name."""
        return {name: self._read(self._tables / name, row) for name, row in ALL_ROWS.items()}

    def _continued(
        self,
        new: DataFrame,
        states: DataFrame,
        again: Iterator[tuple[DataFrame, DataFrame, int]],
        name: str = "folded",
    ) -> tuple[DataFrame, DataFrame | None]:
        """What the folds make of new lines, and the groups and processes with late ones, if any.
        `again` are the lines and states from which those are folded instead, with the time at which
        the lines begin; if that is still too late, from the next ones."""
        rows = new.unionByName(states, allowMissingColumns=True)
        rows = self._written(continued(rows, self._top), name)
        kept = _kept(rows)
        is_late = F.col("kind").isin(OF_GROUP, OF_PROCESS) & F.col("state").isNull()
        late = kept.where(is_late).select(BUCKET, *KEY)
        if late.isEmpty():
            return rows, None
        lines, states, from_ms = next(again)
        new = _lines_from(_join(lines, late, "left_semi"), from_ms)
        starts = kept.where(F.col("kind") == GATEWAY)
        new = new.unionByName(starts, allowMissingColumns=True)
        more, _late = self._continued(new, _join(states, late, "left_semi"), again, f"{name} again")
        is_start = F.coalesce(F.col(f"{KEPT}.kind") == GATEWAY, F.lit(False))
        return rows.unionByName(more.where(~is_start)), late

    def _again(self) -> Iterator[tuple[DataFrame, DataFrame, int]]:
        """From what groups with late lines are folded."""
        from_ms = self._kept_from_ms()
        if from_ms:
            yield self._lines.rows(), self._ended.read(_STATE, [_since(from_ms)]), from_ms
        yield self._lines.rows(), self._states.rows(()), from_ms

    def _begin(self, rows: DataFrame, batch: int) -> None:
        """Replace the closed rows, and delete all others: every group has been folded."""
        for name in ALL_ROWS:
            (self._tables / name / _OPEN).delete()
        for name in CLOSED:
            self._closed(name).begin(unpacked(rows.where(IS_CLOSED), name), batch)

    def _store_closed(self, rows: DataFrame, late: DataFrame | None, name: str, batch: int) -> None:
        """Store the rows that no later line changes. Those of late groups replace earlier ones."""
        store = self._closed(name)
        new = unpacked(rows.where(IS_CLOSED), name)
        if late is None or name in CLOSED_AT_ONCE:
            store.append(new, batch)
            return
        groups = late.where(F.col("kind") == OF_GROUP).select("group_id")
        before = store.rows(range(batch)).join(groups, "group_id", "left_anti")
        both = before.unionByName(new, allowMissingColumns=True)
        store.rewrite(_rows_from(both, name, self._kept_from_ms()), batch)

    def _closed(self, name: str) -> Store:
        return Store(self._tables / name, _columns(ALL_ROWS[name]), BUCKET)

    def _replace_open(
        self, rows: DataFrame, touched: Sequence[int], counts: Mapping[str, int]
    ) -> None:
        """Replace the rows that later lines may change, of the groups and processes that have been
        folded. The other rows of their buckets are copied, so that a bucket is deleted only once
        all new ones are complete."""
        parts = [f"{BUCKET}={bucket}" for bucket in touched]
        kept = _kept(rows)
        anew = kept.where(F.col(IS_NEW) & F.col("kind").isin(OF_GROUP, OF_PROCESS)).select(*KEY)
        for name in ALL_ROWS:
            folder, new = self._tables / name / _OPEN, self._new / "open" / name
            made = unpacked(rows.where(~F.col(IS_CLOSED)), name)
            before = [part for part in folder.names() if part in parts]
            if before:
                old = self._parts_of(folder, before, _columns(ALL_ROWS[name]))
                made = _without(old, anew).unionByName(made).repartition(BUCKET)
            if before or counts.get(name):
                new.write(made, BUCKET)
            for part in set(before).difference(new.names()):
                (folder / part).delete()
        if (self._new / "open").exists():
            self._complete.replace(self._new / "open")
        self._move_complete()

    def _move_complete(self) -> None:
        for name in self._complete.names():
            folder, new = self._tables / name / _OPEN, self._complete / name
            for part in new.names():
                if part.startswith(f"{BUCKET}="):
                    (folder / part).replace(new / part)
        self._complete.delete()

    def _trim(self, batch: int) -> None:
        """Delete what is older than `keep_days`, once for each day. The states that the deleted
        lines lead to are kept, because a late line folds its group again."""
        if self._keep_days is None or batch == 0:  # a store does not replace its only part
            return
        if (to_ms := self.digest().figures.to_ms) is None:
            return
        to_ms = min(to_ms, int(time.time() * 1000))  # a gateway's clock may be far ahead
        from_ms = (to_ms // DAY_MS - self._keep_days) * DAY_MS
        before_ms = self._kept_from_ms()
        if before_ms >= from_ms:
            return
        nothing = self._states.rows(())
        ended = self._ended.read(_STATE, [_since(before_ms)]) if before_ms else nothing
        lines = divided(_lines_from(self._lines.rows(), before_ms), from_ms)
        old = lines.where(F.col("at_ms") < from_ms)
        starts = self._states.rows().where(F.col("kind") == GATEWAY)
        new = old.unionByName(starts, allowMissingColumns=True)
        rows, _late = self._continued(new, ended, iter([(old, nothing, 0)]))
        is_state = F.col("kind").isin(OF_GROUP, OF_PROCESS) & F.col("state").isNotNull()
        (self._new / "ended").write(_kept(rows).where(is_state))
        (self._ended / _since(from_ms)).replace(self._new / "ended")
        for name in self._ended.names():
            if name != _since(from_ms):
                (self._ended / name).delete()
        self._lines.rewrite(_lines_from(self._lines.rows(), from_ms), batch)
        for name in CLOSED:
            store = self._closed(name)
            store.rewrite(_rows_from(store.rows(), name, from_ms), batch)

    def _kept_from_ms(self) -> int:
        """Where the lines begin that are kept; 0 if none has been deleted."""
        found = (name.partition("=")[2] for name in self._ended.names())
        return max(map(int, found), default=0)

    def _written(self, rows: DataFrame, name: str) -> DataFrame:
        """Fold once, and read the rows from Parquet for each table: only its own column. Spark's
        cache would keep a hundred batches of four megabytes in memory for each task."""
        folder = self._new / name
        folder.write(rows)
        return self._spark.read.schema(FOLDED).parquet(folder.path)

    def _write(self, rows: DataFrame, folder: Folder, counts: Mapping[str, int]) -> None:
        """Write each table that has rows."""
        for name in ALL_ROWS:
            if counts.get(name):
                (folder / name).write(unpacked(rows, name), BUCKET)

    def _parts_of(self, folder: Folder, parts: Sequence[str], schema: StructType) -> DataFrame:
        read = self._spark.read.schema(schema).option("basePath", folder.path)
        return read.parquet(*((folder / part).path for part in parts)).select(*schema.names)

    def _read(self, folder: Folder, row: type[BaseRow]) -> DataFrame:
        schema = _columns(row)
        if not folder.exists():  # the table has no row
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(folder.path).select(*schema.names)

    def _sum(self, rows: DataFrame) -> Digest:
        total = Digest(top=self._top)
        for row in rows.select("digest").collect():
            total.merge(Digest.model_validate_json(row.digest))
        return total


_STATE = StructType([*KEPT_ROW, StructField(BUCKET, IntegerType())])


def _shape() -> str:
    """A hash of all that decides whether a later version can go on with this one's states and
    tables."""
    shapes = (
        [each.json_schema() for each in (STATES, PROCESS_STATES, TypeAdapter(Digest))],
        {name: event.schema_version for name, event in EVENTS.items()},
        [each.jsonValue() for each in (KEPT_ROW, *map(_columns, ALL_ROWS.values()))],
        content_of(b""),  # states keep these
    )
    told = json.loads(json.dumps(shapes), object_hook=_without_description)
    return blake2b(json.dumps(told, sort_keys=True).encode(), digest_size=8).hexdigest()


def _without_description(schema: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in schema.items() if name != "description"}


def _lines_from(lines: DataFrame, from_ms: int) -> DataFrame:
    """The lines from this time on. Earlier ones may have come late, or may not be deleted yet."""
    if not from_ms:
        return lines
    return divided(lines, from_ms).where(F.coalesce("at_ms", F.lit(from_ms)) >= from_ms)


def _rows_from(rows: DataFrame, name: str, from_ms: int) -> DataFrame:
    """The rows of a table from this time on."""
    times = [F.col(time) for time in _TIMES if time in columns(ALL_ROWS[name])]
    return rows.where(F.coalesce(*times) >= from_ms) if from_ms and times else rows


def _since(from_ms: int) -> str:
    return f"from_ms={from_ms}"


def _columns(row: type[BaseRow]) -> StructType:
    return struct_of(row).add(BUCKET, IntegerType())


def _join(rows: DataFrame, keys: DataFrame, how: str) -> DataFrame:
    """Rows whose keys are among these, or are not."""
    same = [rows[name].eqNullSafe(keys[name]) for name in (BUCKET, *KEY)]
    return rows.join(keys, same, how)


def _without(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Rows of a table about other groups and processes than these. A key without a process is that
    of a group; rows about a process name no group."""
    is_same = rows["group_id"].eqNullSafe(keys["group_id"])
    if "process_id" in rows.columns:
        process = ("gateway_id", "process_id")
        same = reduce(and_, (rows[name] == keys[name] for name in process))
        is_same &= keys["process_id"].isNull() | same
    return rows.join(keys, is_same, "left_anti")


def _kept(rows: DataFrame) -> DataFrame:
    return rows.where(F.col(KEPT).isNotNull()).select(BUCKET, f"{KEPT}.*")


def _digests(rows: DataFrame) -> DataFrame:
    return _kept(rows).where(F.col("kind") == DIGEST)


def _states(rows: DataFrame) -> DataFrame:
    """What the next batch goes on with, and the digests."""
    return _kept(rows).where(F.coalesce("line", "state", "digest").isNotNull())
