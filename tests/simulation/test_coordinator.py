"""The coordinator of the simulated cluster, beyond what the anchor's own tests show."""

from gateway.hosting.identity import INSTANCE_ID, AnchorIds
from gateway.hosting.lookup_outcome import LiveMembers, NoMembers
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.coordinator import FakeCoordinator, FakeGroup

GROUP = "orders"


def coordinator_with(**group: object) -> FakeCoordinator:
    """A coordinator with one group."""
    return FakeCoordinator(groups={GROUP: FakeGroup(**group)})  # type: ignore[arg-type]


def test_only_the_present_ids_may_commit() -> None:
    """The member id fences a predecessor, the generation a member that has not rejoined."""
    coordinator = coordinator_with(
        member_id="a-2", instance_id=INSTANCE_ID, generation=3, is_synced=True
    )

    def code(member_id: str, generation: int) -> int:
        ids = AnchorIds(member_id=member_id, generation=generation)
        return coordinator.code_of_commit(GROUP, ids)

    assert code("a-2", 3) == ErrorCode.NONE
    assert code("a-1", 3) == ErrorCode.FENCED_INSTANCE_ID
    assert code("a-2", 2) == ErrorCode.ILLEGAL_GENERATION
    coordinator.group(GROUP).is_synced = False
    assert code("a-2", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    coordinator.group(GROUP).remove_member()
    assert code("a-2", 3) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_without_a_member_needs_an_empty_group() -> None:
    """The coordinator answers like a broker."""
    assert coordinator_with(member_id="a-1").code_of_commit(GROUP, None)
    assert not coordinator_with().code_of_commit(GROUP, None)


def test_a_look_distinguishes_an_anchor_from_a_consumer() -> None:
    """An anchor that has not synced yet does not show its state log."""
    assert coordinator_with().look(GROUP) == NoMembers()
    direct = coordinator_with(
        member_id="c", protocol_type="consumer", protocol="range", is_synced=True
    )
    assert direct.look(GROUP) == LiveMembers("consumer", ("c",), "range")
    for is_synced, member_id in ((True, "groupferry-log-1"), (False, "")):
        anchored = coordinator_with(
            member_id=f"{INSTANCE_ID}-1",
            instance_id=INSTANCE_ID,
            protocol_type="consumer",
            protocol="groupferry-log-1",
            is_synced=is_synced,
        ).look(GROUP)
        assert isinstance(anchored, LiveMembers)
        assert anchored.anchored is not None
        assert anchored.anchored.protocol_data == member_id
