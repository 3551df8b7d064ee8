"""The checksums of the state file."""

from dataclasses import dataclass

import pytest

from gateway.state_log.record_format import Entry
from gateway.state_log.sqlite_layout import Head, checksum_of

HEAD = Head(log_id="0af7651916cd43dd8448eb211c80319c", transactions=3, records=2, checksums=11)
SIGNED_INTEGERS_OF_SQLITE = range(1 << 63)


@dataclass(frozen=True, slots=True)
class Row:
    """The input of a checksum."""

    position: int = 1
    group_id: str = "orders"
    key: bytes = b"key"
    value: bytes = b"value"

    @property
    def checksum(self) -> int:
        """The row's own checksum."""
        return checksum_of(self.position, self.group_id, Entry(self.key, self.value))


@pytest.mark.parametrize(
    "other",
    [
        Row(position=2),
        Row(group_id="orders2"),
        Row(key=b"kez"),
        Row(value=b"valuf"),
        Row(key=b"keyv", value=b"alue"),
        Row(value=b"valueo", group_id="rders"),
    ],
)
def test_the_checksum_of_a_row_covers_each_of_its_columns(other: Row) -> None:
    """The checksum also covers the boundaries between columns."""
    assert other.checksum != Row().checksum
    assert other.checksum in SIGNED_INTEGERS_OF_SQLITE


@pytest.mark.parametrize(
    "other",
    [
        HEAD._replace(log_id="another"),
        HEAD._replace(transactions=4),
        HEAD._replace(records=3),
        HEAD._replace(checksums=12),
    ],
)
def test_the_checksum_of_the_head_covers_each_of_its_columns(other: Head) -> None:
    """A manual change of the number of records is detected."""
    assert other.checksum != HEAD.checksum
    assert other.checksum in SIGNED_INTEGERS_OF_SQLITE


def test_removing_a_row_restores_the_heads_checksum() -> None:
    """This holds in any order and across integer overflow, so the rows need no recount."""
    first, second = (1 << 63) - 1, (1 << 62) + 5
    both = HEAD.with_row(first).with_row(second)
    assert both.records == HEAD.records + 2
    assert both.checksums in SIGNED_INTEGERS_OF_SQLITE
    assert both.without_row(first).without_row(second) == HEAD
    assert both.without_row(first) == HEAD.with_row(second)
