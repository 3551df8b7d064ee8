"""The events of all runs as Parquet, by groups: what every table is made from.

A batch is written as a whole and under its own number, so that writing it again changes nothing. No
line is thrown away: what is no event is kept with its place and with what is wrong with it.
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.pipeline.folders import Folder
from gateway.pipeline.parsing import ENVELOPE, FIELDS, LINE, PROBLEM, parse

BUCKETS = 16
"""Groups are spread over so many: a stream reads those again that have new events."""
BUCKET = "bucket"
NO_GROUP = -1
"""The bucket of what is about no group."""

PLACE = (StructField("file", StringType()), StructField("place", StringType()))
"""Where a line is: its file or topic, and the line or the byte in it."""

_STORED = StructType(
    [
        *PLACE,
        StructField(PROBLEM, StringType()),
        StructField(LINE, StringType()),
        *ENVELOPE,
        *FIELDS,
        StructField("batch", LongType()),
        StructField(BUCKET, IntegerType()),
    ]
)


def bucket_of(group_id: Column) -> Column:
    """Which bucket a group is in."""
    bucket = F.pmod(F.xxhash64(group_id), F.lit(BUCKETS)).cast("int")
    return F.when(group_id.isNull(), NO_GROUP).otherwise(bucket)


class Store:
    """In a folder of its own."""

    def __init__(self, spark: SparkSession, folder: Folder) -> None:
        self._spark = spark
        self._folder = folder

    def append(self, lines: DataFrame, batch: int) -> None:
        """Add lines: `file`, `place` and `line`."""
        parsed = parse(lines).withColumn(BUCKET, bucket_of(F.col("group_id")))
        (self._folder / f"batch={batch}").write(parsed, BUCKET)

    def buckets(self, batch: int) -> list[int]:
        """Which ones have events of a batch, beside what is about no group."""
        prefix = f"{BUCKET}="
        names = (self._folder / f"batch={batch}").names()
        found = [int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)]
        return [bucket for bucket in found if bucket != NO_GROUP]

    def events(self, buckets: Collection[int] | None = None) -> DataFrame:
        """All lines that were stored, or those of some buckets."""
        rows = self._spark.read.schema(_STORED).parquet(self._folder.path)
        return rows if buckets is None else rows.where(F.col(BUCKET).isin(sorted(buckets)))

    def clear(self) -> None:
        """Begin anew."""
        self._folder.delete()
