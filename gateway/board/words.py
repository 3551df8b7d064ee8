"""The words that lines of the board share."""

from collections.abc import Collection, Iterable, Iterator

from gateway.board.views import Partitions

NAMED_MAX = 3
"""Names in a line; the others are only counted."""
CHARS_MAX = 200
"""The length of a name that a client chose."""


def short(text: str) -> str:
    """A text that clients have a part in, cut to a bearable length."""
    return text if len(text) <= CHARS_MAX else f"{text[: CHARS_MAX - 1]}…"


def count_members(members: int) -> str:
    """How many members, in words."""
    return f"{members} member{'' if members == 1 else 's'}"


def name_all(names: Iterable[str]) -> str:
    """The first few names in their order, and how many more there are."""
    words = sorted({short(name) for name in names})
    more = len(words) - NAMED_MAX
    return ", ".join(words[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def software_name(name: str | None, version: str | None) -> str | None:
    """A client library with its version; None if neither is words."""
    words: Collection[str] = tuple(filter(None, (name, version)))
    return short(" ".join(words)) if words else None


def each_partition(partitions: Partitions) -> Iterator[tuple[str, int]]:
    """Topic and number of each partition."""
    return ((topic, number) for topic, numbers in partitions.items() for number in numbers)


def partitions_in(partitions: Partitions) -> int:
    """The number of partitions."""
    return sum(map(len, partitions.values()))


def compact(numbers: Iterable[int]) -> str:
    """Partition numbers as ranges, such as 0-3,7."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in ranges)
