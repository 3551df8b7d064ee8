"""The persistent port of each broker."""

import fcntl
from itertools import islice
from pathlib import Path

import pytest

from gateway.data_path.errors import ListenError
from gateway.data_path.ports import FILE_NAME, LOCK_NAME, PortBook


def test_ports_after_the_listen_port_are_assigned_in_order() -> None:
    """Ports that belong to a broker are skipped."""
    book = PortBook(None, 19092)
    assert list(islice(book.free(), 3)) == [19093, 19094, 19095]
    book.keep(5, 19094)
    assert list(islice(book.free(), 3)) == [19093, 19095, 19096]


def test_a_broker_keeps_its_port_across_restarts(tmp_path: Path) -> None:
    """A missing broker keeps its port, because it may return."""
    before = PortBook(tmp_path / "state", 19092)
    before.keep(2, 19093)
    before.keep(1, 19094)
    after = PortBook(tmp_path / "state", 19092)
    assert (after.find_port(1), after.find_port(2), after.find_port(3)) == (19094, 19093, None)
    assert next(after.free()) == 19095


def test_another_listen_port_assigns_new_ports(tmp_path: Path) -> None:
    """Ports follow the listen port, so ports of the old one would be surprising."""
    PortBook(tmp_path, 19092).keep(1, 19093)
    assert PortBook(tmp_path, 29092).find_port(1) is None


def test_ephemeral_ports_are_not_stored(tmp_path: Path) -> None:
    """Ephemeral ports are valid for one run only."""
    book = PortBook(tmp_path, 0)
    assert list(islice(book.free(), 2)) == [0, 0]
    book.keep(1, 34567)
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        '{"listen_port": 19092}x',
        '{"listen_port": 19092, "ports": {"one": 19093}}',
        '{"listen_port": 19092, "ports": {"1": "19093"}}',
        '{"listen_port": 19092, "ports": {"1": 70000}}',
        '{"listen_port": 19092, "ports": {"1": 19093, "2": 19093}}',
        '{"listen_port": 19092, "more": 1}',
    ],
)
def test_an_invalid_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    """Guessing would move brokers. The message names the file."""
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(ListenError, match=FILE_NAME) as refusal:
        PortBook(tmp_path, 19092)
    assert "\n" not in str(refusal.value)


def test_an_unwritable_folder_is_reported_in_one_line(tmp_path: Path) -> None:
    """The error occurs when the first port is stored."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ListenError, match="file"):
        PortBook(tmp_path / "file", 19092).keep(1, 19093)


def test_the_book_of_a_fleet_has_what_other_processes_have_written(tmp_path: Path) -> None:
    """Processes that do not share the book could give one port to two nodes, or one node two
    ports."""
    one, other = PortBook(tmp_path, 19092), PortBook(tmp_path, 19092)
    with one.lock():
        one.keep(1, 19093)
    with other.lock():
        assert other.find_port(1) == 19093
        assert next(other.free()) == 19094
        with pytest.raises(BlockingIOError), (tmp_path / LOCK_NAME).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with one.lock():
        pass


def test_a_book_that_cannot_be_locked_is_one_line(tmp_path: Path) -> None:
    """The folder may be gone."""
    book = PortBook(tmp_path / "gone", 19092)
    with pytest.raises(ListenError, match=LOCK_NAME), book.lock():
        pass
