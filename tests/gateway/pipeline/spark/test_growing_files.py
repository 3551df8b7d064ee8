"""Lines of growing files: only complete ones, once each, in limited rounds."""

from pathlib import Path

from gateway.pipeline.sources import Offsets, Sources

FIRST, SECOND = b'{"a": 1}\n', b'{"b": 2}\n'
ROOM = 1_000


def sources(*inputs: Path | str) -> Sources:
    return Sources(inputs=[str(name) for name in inputs])


def read(
    source: Sources, offsets: Offsets, room: int = ROOM
) -> tuple[list[tuple[str, str, str]], Offsets]:
    """File name, place and line of what has been added, and how far that is."""
    growth = source.find_growth(offsets, room)
    lines = [(line.file.rpartition("/")[2], line.place, line.text) for line in source.read(growth)]
    return lines, growth.offsets


def rounds(source: Sources, room: int) -> list[list[tuple[str, str, str]]]:
    """The lines of all rounds."""
    offsets: Offsets = {}
    taken = []
    while (round_ := read(source, offsets, room))[0]:
        lines, offsets = round_
        taken.append(lines)
    return taken


def test_a_line_is_read_once_it_is_complete(tmp_path: Path) -> None:
    """The gateway may be writing it."""
    file = tmp_path / "events"
    file.write_bytes(FIRST + SECOND[:4])
    source = sources(tmp_path)
    lines, offsets = read(source, {})
    assert lines == [("events", "byte 0", '{"a": 1}')]
    assert read(source, offsets) == ([], offsets)
    file.write_bytes(FIRST + SECOND)
    assert read(source, offsets)[0] == [("events", "byte 9", '{"b": 2}')]


def test_the_size_of_a_round_is_limited(tmp_path: Path) -> None:
    """The limit is in bytes over all files. The rest comes next."""
    (tmp_path / "a").write_bytes(FIRST * 3)
    (tmp_path / "b").write_bytes(SECOND * 2)
    taken = [[line[:2] for line in lines] for lines in rounds(sources(tmp_path), 20)]
    assert taken == [
        [("a", "byte 0"), ("a", "byte 9")],
        [("a", "byte 18"), ("b", "byte 0")],
        [("b", "byte 9")],
    ]


def test_an_endless_line_does_not_stop_the_others(tmp_path: Path) -> None:
    """An endless line is read in pieces."""
    (tmp_path / "a").write_bytes(b"x" * 45 + b"\n" + FIRST)
    taken = [line for lines in rounds(sources(tmp_path), 20) for line in lines]
    assert [text for _, _, text in taken] == ["x" * 20, "x" * 20, "x" * 5, '{"a": 1}']


def test_files_come_and_go(tmp_path: Path) -> None:
    """The oldest are deleted, even between listing and reading. New ones may be in subfolders, and
    the inputs may appear later."""
    old = tmp_path / "one" / "old"
    source = sources(tmp_path / "o*")
    assert read(source, {}) == ([], {})
    old.parent.mkdir()
    old.write_bytes(FIRST)
    growth = source.find_growth({})
    assert growth.offsets == {str(old): len(FIRST)}
    old.unlink()
    assert list(source.read(growth)) == []
    (tmp_path / "one" / "below").mkdir()
    (tmp_path / "one" / "below" / "new").write_bytes(SECOND)
    (tmp_path / "one" / ".hidden").write_bytes(SECOND)
    lines, offsets = read(source, growth.offsets)
    assert lines == [("new", "byte 0", '{"b": 2}')]
    assert str(old) not in offsets


def test_bytes_that_are_not_text_are_a_line(tmp_path: Path) -> None:
    """A later stage rejects it as an event."""
    (tmp_path / "a").write_bytes(b"\xff\xfe\r\n\n" + FIRST)
    lines, _offsets = read(sources(tmp_path / "a"), {})
    assert [line[1:] for line in lines] == [
        ("byte 0", "\N{REPLACEMENT CHARACTER}" * 2 + "\r"),
        ("byte 4", ""),
        ("byte 5", '{"a": 1}'),
    ]
