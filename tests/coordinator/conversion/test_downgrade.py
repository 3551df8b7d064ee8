"""Consumer to generic (spec section 6); the scenarios tell the whole stories."""

from coordinator.errors import ErrorCode
from coordinator.volatile import GenericPhase
from tests.support.group_script import GroupScript, subscription

GOOD = subscription(["foo"])
JUNK = b"\x00\x01 junk"


def test_metadata_that_cannot_be_read_stops_no_downgrade(group: GroupScript) -> None:
    """A JoinGroup is judged by its first protocol. When another one wins the vote, the downgrade
    must not fail for its bytes: a timer has nobody to refuse."""
    group.native("n1")
    first = group.join(version=3, protocols=(("range", GOOD), ("sticky", JUNK))).member_id
    group.join(version=3, protocols=(("sticky", GOOD),))
    for _ in range(4):
        group.wait(9_000)
        for member_id in group.consumer.phases:
            group.join(
                member_id,
                protocols=group.consumer.members[member_id].classic.protocols,  # type: ignore[union-attr]
            )
    group.wait(9_000)  # n1's session is over
    assert group.generic.phase is GenericPhase.PREPARING_REBALANCE
    assert group.generic.core.protocol == "sticky"
    assert group.generic.members[first].assignment[:2] == b"\x00\x01"


def test_metadata_that_cannot_be_read_stops_no_view(group: GroupScript) -> None:
    """After an upgrade the first protocol in a member's list may be one that was never selected."""
    tokens = [
        group.send_join(version=3, protocols=(("sticky", JUNK), ("range", GOOD))),
        group.send_join(version=3, protocols=(("range", GOOD),)),
    ]
    group.native("n1")
    assert {group.answers[token].error for token in tokens} == {ErrorCode.REBALANCE_IN_PROGRESS}
    assert [member.is_classic for member in group.view().members].count(True) == 2
