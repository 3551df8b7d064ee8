"""SyncGroup on a consumer group (rule 5.6). Scenarios 36 to 41 cover its answers."""

from coordinator.interface.records import MemberState
from coordinator.interface.volatile_records import DeadlineKind, MemberPhase
from coordinator.mixed.sync import embedded_version
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_records import given_classic, given_native
from tests.support.group_script import GroupScript, read_assignment, subscription

FOO_0 = {"foo": (0,)}


def test_a_sync_ends_the_join(group: GroupScript) -> None:
    """The sync timer stops, the session restarts, and nothing is written."""
    group.given_consumer_group(given_native("n1"))
    group.join("c1")
    group.wait(2_000)
    assert group.sync_assignment("c1", 11)["foo"]
    assert group.last_step.durable == ()
    assert group.left_ms(DeadlineKind.SYNC, "c1") is None
    assert group.left_ms(DeadlineKind.SESSION, "c1") == 10_000
    assert group.consumer.phases["c1"] is MemberPhase.STABLE


def test_sync_returns_the_partitions_that_a_revoking_member_keeps(group: GroupScript) -> None:
    """A newer target does not matter: the member is behind because of that revocation."""
    group.given_consumer_group(
        given_classic("c1", assigned={"foo": (0, 1)}, target=FOO_0), given_native("n1"), epoch=11
    )
    group.join("c1", owned={"foo": (0, 1)})
    assert group.current("c1").state is MemberState.UNREVOKED_PARTITIONS
    assert group.sync_assignment("c1", 10) == FOO_0
    assert group.sync_assignment("c1", 10) == FOO_0  # a repeated request gets the same answer


def test_an_empty_assignment_is_not_zero_bytes(group: GroupScript) -> None:
    """Some clients crash on zero bytes."""
    group.given_consumer_group(given_classic("c1"), given_native("n1"))
    reply = group.sync("c1", 10)
    assert read_assignment(reply.assignment) == {}
    assert reply.assignment != b""


def test_the_assignment_has_the_version_of_the_first_protocol(group: GroupScript) -> None:
    """Its subscription is the one that counts (rule 5.4)."""
    protocols = (
        ("range", subscription(["foo"], version=2)),
        ("sticky", subscription(["foo"], version=1)),
    )
    group.given_consumer_group(given_classic("c1", protocols=protocols), given_native("n1"))
    assert embedded_version(group.consumer.members["c1"]) == 2


def test_a_late_sync_gets_rebalance_in_progress_for_any_protocol(group: GroupScript) -> None:
    """DEV D27: the classic group selected a protocol that is not the member's first. The newer
    target sends the member back to JoinGroup, where it learns the name."""
    protocols = (("range", subscription(["foo"])), ("roundrobin", subscription(["foo"])))
    group.given_consumer_group(
        given_classic("c1", protocols=protocols), given_native("n1"), epoch=11
    )
    late = group.sync("c1", 10, protocol_name="roundrobin")
    assert late.error == ErrorCode.REBALANCE_IN_PROGRESS
