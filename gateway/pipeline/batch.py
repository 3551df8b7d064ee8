"""`groupferry report`: all lines of its inputs at once."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from gateway.pipeline.analysis import Analysis
from gateway.pipeline.folders import Folder
from gateway.pipeline.lines import REJECTED_FILES_MAX, places, read_lines
from gateway.pipeline.parsing import PROBLEM
from gateway.pipeline.tables.rejected import rejected

BATCH = 0


def make_tables(
    spark: SparkSession, inputs: Sequence[str], output: Folder
) -> Mapping[str, DataFrame]:
    """All tables by name, from nothing else than these inputs. Raises PipelineError."""
    lines = read_lines(spark, inputs)
    analysis = Analysis(spark, output)
    analysis.clear()
    analysis.take_in(lines, BATCH)
    bad = analysis.store.events().where(F.col(PROBLEM).isNotNull())
    files = bad.select("file").distinct().orderBy("file").limit(REJECTED_FILES_MAX).collect()
    if files:
        analysis.write_whole("rejected", rejected(places(spark, [each.file for each in files])))
    return analysis.tables()
