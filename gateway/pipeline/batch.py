"""`groupferry report`: reads all lines of its sources at once."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gateway.pipeline.analysis import Analysis
from gateway.pipeline.folders import Folder
from gateway.pipeline.lines import REJECTED_FILES_MAX, places
from gateway.pipeline.parsing import PROBLEM
from gateway.pipeline.tables.rejected import rejected

BATCH = 0


def make_tables(spark: SparkSession, lines: DataFrame, output: Folder) -> Mapping[str, DataFrame]:
    """All tables by name, made from these lines only."""
    analysis = Analysis(spark, output)
    analysis.clear()
    analysis.take_in(lines, BATCH)
    events = analysis.store.events()
    bad = events.where(F.col(PROBLEM).isNotNull())
    in_files = bad.where(F.col("place").isNull()).select("file").distinct()
    first = in_files.orderBy("file").limit(REJECTED_FILES_MAX).collect()
    if first:
        files = [each.file for each in first]
        found = places(spark, files)
        elsewhere = bad.where(F.col("place").isNotNull() | ~F.col("file").isin(files))
        analysis.write_whole("rejected", rejected(found).union(rejected(elsewhere)))
    return analysis.tables()
