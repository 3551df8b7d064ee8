"""What a lookup in the cluster says of a group, in words."""

import pytest

from gateway.hosting.lookup_outcome import STREAMS_PROTOCOL, LiveMembers, foreign_kind


def test_few_of_many_members_are_named() -> None:
    """A group may have thousands."""
    members = LiveMembers("consumer", tuple(f"c{number}" for number in range(1_000)))
    assert str(members) == "1000 members (c0, c1, c10, c100, c101 and 995 more)"


@pytest.mark.parametrize(
    ("protocol_type", "protocol", "kind"),
    [
        ("consumer", "range", ""),
        ("", "", ""),
        ("connect", "sessioned", "its protocol type is connect"),
        ("consumer", STREAMS_PROTOCOL, "it is a group of Kafka Streams"),
    ],
)
def test_groups_that_are_none_of_consumers_are_named(
    protocol_type: str, protocol: str, kind: str
) -> None:
    """A group that only manages offsets has no protocol type."""
    assert foreign_kind(protocol_type, protocol) == kind
