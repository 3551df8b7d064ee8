"""The sources of a report: files, a topic, or both."""

import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from gateway.pipeline.errors import PipelineError
from gateway.pipeline.follow import growing_lines
from gateway.pipeline.lines import read_lines
from gateway.pipeline.topic import EventsTopic, growing_topic_lines, require_topic, topic_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """At least one of the two."""

    inputs: Sequence[str] = ()
    topic: EventsTopic | None = None

    def require(self) -> None:
        """Check without Spark that the sources exist. Raises PipelineError."""
        if self.topic:
            require_topic(self.topic)

    def secrets(self) -> Mapping[str, str]:
        """What the JVM needs in its environment. Raises PipelineError."""
        return self.topic.secrets() if self.topic else {}

    def require_without(self, output: str) -> None:
        """Check that no source includes the output folder: tables must not be read as events.
        Raises PipelineError."""
        place = _local(output)
        ways = (Path(os.path.abspath(place)), Path(place).resolve())  # noqa: PTH100  (with links)
        folders = {folder for way in ways for folder in (way, *way.parents)}
        for each in self.inputs:
            if _has_any(each, folders):
                raise PipelineError(f"--output {output} is inside {each}: choose another folder")

    def lines(self, spark: SparkSession) -> DataFrame:
        """`file`, `place`, `block` and `line` of everything available now. Raises PipelineError."""
        files = [read_lines(spark, self.inputs)] if self.inputs else []
        records = [topic_lines(spark, self.topic)] if self.topic else []
        return reduce(DataFrame.union, [*files, *records])

    def growing_lines(self, spark: SparkSession) -> DataFrame:
        """The same as a stream. Raises PipelineError."""
        files = [growing_lines(spark, self.inputs)] if self.inputs else []
        records = [growing_topic_lines(spark, self.topic)] if self.topic else []
        return reduce(DataFrame.union, [*files, *records])


def _has_any(given: str, folders: Collection[Path]) -> bool:
    """Whether an input covers one of the folders: by its path, a pattern, or a link."""
    for pattern in _alternatives(_local(given)):
        known = {Path(each).resolve() for each in (pattern, *glob.glob(pattern))}  # noqa: PTH207  (any)
        absolute = os.path.abspath(pattern)  # noqa: PTH100  (with links)
        if any(folder in known or folder.match(absolute) for folder in folders):
            return True
    return False


def _alternatives(pattern: str) -> Iterator[str]:
    """Expand braces, which `glob` does not support."""
    if (braces := re.search(r"\{([^{}]*)\}", pattern)) is None:
        yield pattern
    else:
        for each in braces[1].split(","):
            yield from _alternatives(pattern[: braces.start()] + each + pattern[braces.end() :])


def _local(path: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", path)
