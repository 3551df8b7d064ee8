"""What a report reads: files, a topic, or both.

Must not know how either is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from gateway.pipeline.follow import growing_lines
from gateway.pipeline.lines import read_lines
from gateway.pipeline.topic import Topic, growing_topic_lines, require_topic, topic_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """At least one of the two."""

    inputs: Sequence[str] = ()
    topic: Topic | None = None

    def require(self) -> None:
        """See that there is what can be looked for without Spark. Raises PipelineError."""
        if self.topic:
            require_topic(self.topic)

    def lines(self, spark: SparkSession) -> DataFrame:
        """`file`, `place` and `line` of all that is there now. Raises PipelineError."""
        files = [read_lines(spark, self.inputs)] if self.inputs else []
        records = [topic_lines(spark, self.topic)] if self.topic else []
        return reduce(DataFrame.union, [*files, *records])

    def growing_lines(self, spark: SparkSession) -> DataFrame:
        """The stream of the same. Raises PipelineError."""
        files = [growing_lines(spark, self.inputs)] if self.inputs else []
        records = [growing_topic_lines(spark, self.topic)] if self.topic else []
        return reduce(DataFrame.union, [*files, *records])
