"""Lines of files have the same text in a batch and in a stream, whatever their bytes."""

from __future__ import annotations

import random
from codecs import BOM_UTF8
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES = b"\x00A\x80\xbf\xc0\xc3\xe0\xe2\x82\xac\xed\xa0\xf0\x9f\x98\xf4\x90\xf5\xff"
"""Pieces that form all kinds of invalid UTF-8, and some valid."""


def test_lines_have_the_same_text_everywhere(spark: SparkSession, tmp_path: Path) -> None:
    """In Parquet a string must be UTF-8, or only Spark can read the table. Spark drops a byte order
    mark at the beginning of a file."""
    from gateway.pipeline.sources import Sources
    from gateway.pipeline.spark.inputs import read_lines
    from gateway.pipeline.spark.packing import texts_of

    dice = random.Random(1)
    file = tmp_path / "garbage"
    marked = BOM_UTF8 + BOM_UTF8 + b"x"
    lines = [bytes(dice.choices(BYTES, k=dice.randrange(12))) for _ in range(1_000)]
    file.write_bytes(b"\n".join([marked, marked, *lines, b""]))
    source = Sources(inputs=[str(file)])
    streamed = [line.text.encode() for line in source.read(source.find_growth({}))]
    of_batch = read_lines(spark, [str(file)])
    stored = of_batch.select("line").toArrow()["line"].combine_chunks()
    assert [text.encode() for text in texts_of(stored)] == streamed
    assert streamed[:2] == [marked[3:], marked]
