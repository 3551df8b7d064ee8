"""The words that lines of the board share."""

from gateway.board.words import (
    CHARS_MAX,
    compact,
    count_members,
    each_partition,
    name_all,
    short,
    software_name,
)


def test_names_that_clients_chose_are_cut() -> None:
    """A name may have 32 KiB."""
    assert short("x" * 200) == "x" * 200
    assert len(short("x" * 30_000)) == CHARS_MAX


def test_few_names_are_listed_and_the_others_counted() -> None:
    assert name_all(["b", "a", "b"]) == "a, b"
    assert name_all("edcba") == "a, b, c and 2 more"


def test_members_are_counted_in_words() -> None:
    assert (count_members(1), count_members(2)) == ("1 member", "2 members")


def test_a_client_library_that_did_not_introduce_itself_has_no_name() -> None:
    assert (software_name("x", "1"), software_name("x", None)) == ("x 1", "x")
    assert software_name(None, None) is None


def test_partitions_are_counted_one_by_one() -> None:
    assert list(each_partition({"t": (0, 2)})) == [("t", 0), ("t", 2)]


def test_partitions_are_written_as_ranges() -> None:
    """The ranges are in order."""
    assert compact([7, 0, 1, 2, 9, 8]) == "0-2,7-9"
    assert (compact([4]), compact([])) == ("4", "")
