"""Lines of growing files: only complete ones, once each, in limited batches."""

from pathlib import Path
from typing import Any

from pyspark.sql.streaming.datasource import ReadLimit

from gateway.pipeline.spark.inputs import Reader

FIRST, SECOND = b'{"a": 1}\n', b'{"b": 2}\n'


def reader(*inputs: Path | str, batch_bytes_max: int = 1000) -> Reader:
    return Reader([str(each) for each in inputs], batch_bytes_max)


def latest(source: Reader, start: dict[str, int]) -> dict[str, int]:
    return source.latestOffset(start, ReadLimit())


def rows(source: Reader, start: dict[str, int], end: dict[str, int]) -> list[tuple[Any, ...]]:
    """File name, place and line."""
    return [
        (row["file"].rpartition("/")[2], row["place"], row["line"])
        for partition in source.partitions(start, end)
        for batch in source.read(partition)
        for row in batch.to_pylist()
    ]


def test_a_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    """The gateway may be writing it."""
    file = tmp_path / "events"
    file.write_bytes(FIRST + SECOND[:4])
    source = reader(tmp_path)
    once = latest(source, source.initialOffset())
    assert rows(source, {}, once) == [("events", "byte 0", '{"a": 1}')]
    assert latest(source, once) == once
    file.write_bytes(FIRST + SECOND)
    twice = latest(source, once)
    assert rows(source, once, twice) == [("events", "byte 9", '{"b": 2}')]


def test_the_size_of_a_batch_is_limited(tmp_path: Path) -> None:
    """The limit is in bytes over all files. The rest comes next."""
    (tmp_path / "a").write_bytes(FIRST * 3)
    (tmp_path / "b").write_bytes(SECOND * 2)
    source = reader(tmp_path, batch_bytes_max=20)
    offset: dict[str, int] = {}
    taken = []
    while (end := latest(source, offset)) != offset:
        taken.append([(name, place) for name, place, _ in rows(source, offset, end)])
        offset = end
    assert taken == [
        [("a", "byte 0"), ("a", "byte 9")],
        [("a", "byte 18"), ("b", "byte 0")],
        [("b", "byte 9")],
    ]


def test_an_endless_line_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is read in pieces."""
    (tmp_path / "a").write_bytes(b"x" * 45 + b"\n" + FIRST)
    source = reader(tmp_path, batch_bytes_max=20)
    offset: dict[str, int] = {}
    taken = []
    while (end := latest(source, offset)) != offset:
        taken += rows(source, offset, end)
        offset = end
    assert [line for _, _, line in taken] == ["x" * 20, "x" * 20, "x" * 5, '{"a": 1}']


def test_files_come_and_go(tmp_path: Path) -> None:
    """The oldest are deleted, even between listing and reading. New ones may be in subfolders, and
    the inputs may appear later."""
    old = tmp_path / "one" / "old"
    source = reader(tmp_path / "o*")
    assert latest(source, {}) == {}
    old.parent.mkdir()
    old.write_bytes(FIRST)
    once = latest(source, {})
    assert once == {str(old): len(FIRST)}
    old.unlink()
    assert rows(source, {}, once) == []
    (tmp_path / "one" / "below").mkdir()
    (tmp_path / "one" / "below" / "new").write_bytes(SECOND)
    (tmp_path / "one" / ".hidden").write_bytes(SECOND)
    twice = latest(source, once)
    assert rows(source, once, twice) == [("new", "byte 0", '{"b": 2}')]
    assert str(old) not in twice


def test_bytes_that_are_not_text_are_a_line(tmp_path: Path) -> None:
    """A later stage rejects it as an event."""
    (tmp_path / "a").write_bytes(b"\xff\xfe\r\n\n" + FIRST)
    source = reader(tmp_path / "a")
    end = latest(source, {})
    assert [row[1:] for row in rows(source, {}, end)] == [
        ("byte 0", "\N{REPLACEMENT CHARACTER}" * 2 + "\r"),
        ("byte 4", ""),
        ("byte 5", '{"a": 1}'),
    ]
