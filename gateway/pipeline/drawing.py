"""Draws the ownership maps of the worst groups from the stored tables, in Spark's Python processes.
What a map shows depends on the end of everything, so this comes after the digest."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

import pyarrow as pa
from pydantic import TypeAdapter
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from gateway.pipeline.fold import Key
from gateway.pipeline.folding import BUCKET, bucket_of, map_in_arrow
from gateway.pipeline.report.model import MemberName, OwnershipMap
from gateway.pipeline.report.numbers.digest import Digest
from gateway.pipeline.report.numbers.limits import of_each
from gateway.pipeline.report.numbers.maps import INTERVALS_MAX, names, ownership_map
from gateway.pipeline.report.window import Span
from gateway.pipeline.spark_types import struct_of
from gateway.pipeline.tables.ownership import OwnershipRow
from gateway.pipeline.tables.row import BaseRow
from gateway.pipeline.tables.timeline import TimelineRow

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
    spans = {each.key: (each.shown(end_ms), each.whole(end_ms)) for each in digest.worst}
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
    chosen = table.where(F.col(BUCKET).isin(buckets) & F.col("group_id").isin(groups))
    columns = F.struct(*struct_of(_ROWS[name]).names)
    return chosen.select(*_KEY, columns.alias(name))


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
