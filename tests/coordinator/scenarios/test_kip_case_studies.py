"""The case studies of KIP-848, step by step, with the KIP's own epochs and partitions.

`drawn` is the KIP's picture of a group: its epoch, the target and its epoch, and the partitions and
epoch of each member. Where Kafka 4.3 and groupferry differ from the text, the step says so. Three
differences occur everywhere:

- A member that joins advances as far as possible in the same request; the KIP waits for its first
heartbeat.

- The request that needs a target computes it, at most once per assignment interval, which is 0
here. In the KIP the growth of the group epoch does.

- A free partition goes to its next owner with that member's own heartbeat. The KIP draws it there
  immediately.
"""

from collections.abc import Iterable, Mapping

import pytest

import coordinator.consumer.target as target_module
from coordinator.assignors import GroupSpec, Target
from coordinator.interface.config import GroupConfig
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.group_records import given_classic_group_member, given_native
from tests.support.group_script import GroupScript, make_topics, partitions

Foo = Iterable[int]


def foo(*numbers: int) -> dict[str, tuple[int, ...]]:
    return {"foo": numbers} if numbers else {}


def drawn(group: GroupScript) -> tuple[int, int, dict[str, set[int]], dict[str, tuple[int, Foo]]]:
    """Group epoch, assignment epoch, target, and epoch and partitions of each member."""
    members = {member.member_id: member for member in group.view().members}
    return (
        group.consumer.epoch,
        group.consumer.assignment_epoch,
        {id_: set(member.target.get("foo", ())) for id_, member in members.items()},
        {
            id_: (member.member_epoch, set(group.granted_partitions(id_).get("foo", ())))
            for id_, member in members.items()
        },
    )


@pytest.fixture
def six(make_group: MakeGroup) -> GroupScript:
    """A group on a topic of six partitions that computes its target immediately."""
    config = GroupConfig(consumer_assignment_interval_ms=0)
    return make_group(config=config, topics=make_topics(foo=6))


def test_basic(make_group: MakeGroup) -> None:
    """Three members join one after the other. The KIP begins at epoch 1, Kafka 4.3 at 2 (rule 3.5),
    so every epoch is one greater than in the text."""
    group = make_group(config=GroupConfig(consumer_assignment_interval_ms=0))
    kip = 1

    # "Member A joins the group": it gets everything.
    reply = group.native("A")
    assert (reply.member_epoch, group.names_of(reply.assignment)) == (1 + kip, foo(0, 1, 2))
    assert drawn(group) == (1 + kip, 1 + kip, {"A": {0, 1, 2}}, {"A": (1 + kip, {0, 1, 2})})

    # "Member B joins the group": it can move to epoch 2, but not get foo-2 before A revokes it.
    group.native("B")
    target = {"A": {0, 1}, "B": {2}}
    members: dict[str, tuple[int, Foo]] = {"A": (1 + kip, {0, 1, 2}), "B": (2 + kip, set())}
    assert drawn(group) == (2 + kip, 2 + kip, target, members)

    # "When A heartbeats, the group coordinator instructs it to revoke foo-2."
    reply = group.native("A", 1 + kip, owned=foo(0, 1, 2))
    assert (reply.member_epoch, group.names_of(reply.assignment)) == (1 + kip, foo(0, 1))
    assert group.native("B", 2 + kip).assignment is None

    # "When A heartbeats again and acknowledges the revocation": epoch 2, foo-2 is released.
    assert group.native("A", 1 + kip, owned=foo(0, 1)).member_epoch == 2 + kip
    members = {"A": (2 + kip, {0, 1}), "B": (2 + kip, set())}
    assert drawn(group) == (2 + kip, 2 + kip, target, members)

    # "When B heartbeats, he can now gets foo-2."
    assert group.names_of(group.native("B", 2 + kip).assignment) == foo(2)

    # "Member C joins the group."
    group.native("C")
    target = {"A": {0}, "B": {2}, "C": {1}}
    members = {"A": (2 + kip, {0, 1}), "B": (2 + kip, {2}), "C": (3 + kip, set())}
    assert drawn(group) == (3 + kip, 3 + kip, target, members)

    # "When B heartbeats", it moves to epoch 3, for it has nothing to revoke.
    assert group.native("B", 2 + kip).member_epoch == 3 + kip
    assert group.native("C", 3 + kip).assignment is None

    # A revokes foo-1 and acknowledges; C gets it.
    assert group.names_of(group.native("A", 2 + kip, owned=foo(0, 1)).assignment) == foo(0)
    assert group.native("A", 2 + kip, owned=foo(0)).member_epoch == 3 + kip
    assert group.names_of(group.native("C", 3 + kip).assignment) == foo(1)

    # "All the members have eventually advanced to the group epoch (3)." (The KIP's last picture
    # gives foo-1 to B as well, by mistake.)
    members = {"A": (3 + kip, {0}), "B": (3 + kip, {2}), "C": (3 + kip, {1})}
    assert drawn(group) == (3 + kip, 3 + kip, target, members)


def test_incremental_revocation_and_assignment(six: GroupScript) -> None:
    """C joins A and B, and gets the partitions that each gives up as soon as it does."""
    group = six
    group.given_consumer_group(
        given_native("A", epoch=21, assigned=foo(0, 1, 2)),
        given_native("B", epoch=21, assigned=foo(3, 4, 5)),
        epoch=21,
    )

    # "C joins the group": epoch 22, and no partition yet.
    group.native("C")
    target = {"A": {0, 1}, "B": {3, 4}, "C": {2, 5}}
    members: dict[str, tuple[int, Foo]] = {
        "A": (21, {0, 1, 2}),
        "B": (21, {3, 4, 5}),
        "C": (22, set()),
    }
    assert drawn(group) == (22, 22, target, members)

    # A is instructed to revoke foo-2, B to revoke foo-5; "C heartbeats, no changes for it".
    assert group.names_of(group.native("A", 21, owned=foo(0, 1, 2)).assignment) == foo(0, 1)
    assert group.names_of(group.native("B", 21, owned=foo(3, 4, 5)).assignment) == foo(3, 4)
    assert group.native("C", 22).assignment is None

    # "A heartbeats and acknowledges the revocation": C gets foo-2, foo-5 is still held.
    assert group.native("A", 21, owned=foo(0, 1)).member_epoch == 22
    assert group.names_of(group.native("C", 22).assignment) == foo(2)
    members = {"A": (22, {0, 1}), "B": (21, {3, 4}), "C": (22, {2})}
    assert drawn(group) == (22, 22, target, members)

    # B acknowledges too: "C heartbeats, the group coordinator gives it foo-2 and foo-5".
    assert group.native("B", 21, owned=foo(3, 4)).member_epoch == 22
    assert group.names_of(group.native("C", 22).assignment) == foo(2, 5)
    members = {"A": (22, {0, 1}), "B": (22, {3, 4}), "C": (22, {2, 5})}
    assert drawn(group) == (22, 22, target, members)


def given_three_members(group: GroupScript) -> None:
    group.given_consumer_group(
        given_native("A", epoch=22, assigned=foo(0, 1)),
        given_native("B", epoch=22, assigned=foo(3, 4)),
        given_native("C", epoch=22, assigned=foo(2, 5)),
        epoch=22,
    )


def test_member_failure(six: GroupScript) -> None:
    """A fails to heartbeat, and B and C take over its partitions."""
    group = six
    given_three_members(group)
    group.wait(30_000)
    for survivor in ("B", "C"):
        group.native(survivor, 22)

    # "The group coordinator removes it after the session timeout expires": epoch 23.
    group.wait(15_000)
    target = {"B": {3, 4}, "C": {2, 5}}
    members: dict[str, tuple[int, Foo]] = {"B": (22, {3, 4}), "C": (22, {2, 5})}
    assert drawn(group) == (23, 22, target, members)

    # "B and C heartbeat and transition to epoch 23."
    assert group.names_of(group.native("B", 22).assignment) == foo(0, 3, 4)
    assert group.names_of(group.native("C", 22).assignment) == foo(1, 2, 5)
    target = {"B": {3, 4, 0}, "C": {2, 5, 1}}
    members = {"B": (23, {3, 4, 0}), "C": (23, {2, 5, 1})}
    assert drawn(group) == (23, 23, target, members)


def test_partition_added(make_group: MakeGroup) -> None:
    """foo-1 is created, and B, which had no partition, gets it. The KIP's last sentence names B and
    C although A and B heartbeat."""
    config = GroupConfig(consumer_assignment_interval_ms=0)
    group = make_group(config=config, topics=make_topics(1, foo=1))
    group.given_consumer_group(
        given_native("A", epoch=22, assigned=foo(0)), given_native("B", epoch=22), epoch=22
    )
    group.native("A", 22)
    target: Mapping[str, set[int]] = {"A": {0}, "B": set()}
    members: dict[str, tuple[int, Foo]] = {"A": (22, {0}), "B": (22, set())}
    assert drawn(group) == (22, 22, target, members)

    # The first heartbeat after the change bumps the group epoch and computes the target.
    group.topics = make_topics(2, foo=2)
    assert group.native("A", 22).member_epoch == 23
    assert drawn(group) == (23, 23, {"A": {0}, "B": {1}}, {"A": (23, {0}), "B": (22, set())})
    assert group.names_of(group.native("B", 22).assignment) == foo(1)
    assert drawn(group) == (23, 23, {"A": {0}, "B": {1}}, {"A": (23, {0}), "B": (23, {1})})


def phase_of(group: GroupScript, member_id: str) -> str:
    """The KIP's state of a member that still uses the classic protocol."""
    return next(m.phase for m in group.view().members if m.member_id == member_id)


def as_in_the_text(spec: GroupSpec) -> Target:
    """The targets that the KIP draws. Balance and stickiness alone do not determine them."""
    targets = {
        frozenset({"A", "C"}): {"A": foo(0, 1, 3), "C": foo(2, 4, 5)},
        frozenset({"A", "B", "C"}): {"A": foo(0, 1), "B": foo(3, 4), "C": foo(2, 5)},
    }
    wanted = {id_: partitions(owned) for id_, owned in targets[frozenset(spec.members)].items()}
    return {id_: part for id_, part in wanted.items() if part != spec.target.get(id_)}


def test_online_migration(six: GroupScript, monkeypatch: pytest.MonkeyPatch) -> None:
    """A classic group of generation 22 is rolled, member by member. A is static, because only a
    static member gets its partitions back without a bump, as the KIP draws it."""
    monkeypatch.setattr(target_module, "ASSIGNORS", {"uniform": as_in_the_text})
    group = six
    group.given_classic_group(
        given_classic_group_member("A-classic", foo(0, 1), instance_id="a"),
        given_classic_group_member("B-classic", foo(3, 4)),
        given_classic_group_member("C", foo(2, 5)),
        generation=22,
    )

    # "A leaves and rejoins with the new protocol enabled": the generation becomes the group epoch.
    reply = group.native("A", instance_id="a")
    assert (reply.member_epoch, group.names_of(reply.assignment)) == (22, foo(0, 1))
    target = {"A": {0, 1}, "B-classic": {3, 4}, "C": {2, 5}}
    members: dict[str, tuple[int, Foo]] = {
        "A": (22, {0, 1}),
        "B-classic": (22, {3, 4}),
        "C": (22, {2, 5}),
    }
    assert drawn(group) == (22, 22, target, members)
    assert group.beat("C", 22).error == ErrorCode.NONE

    # "B leaves the group."
    group.leave("B-classic")
    members = {"A": (22, {0, 1}), "C": (22, {2, 5})}
    assert drawn(group) == (23, 22, {"A": {0, 1}, "C": {2, 5}}, members)

    # A's heartbeat computes the target, and moves A (in the KIP that comes after C joined).
    assert group.names_of(group.native("A", 22).assignment) == foo(0, 1, 3)
    target = {"A": {0, 1, 3}, "C": {2, 5, 4}}
    members = {"A": (23, {0, 1, 3}), "C": (22, {2, 5})}
    assert drawn(group) == (23, 23, target, members)

    # "C heartbeats and is notified that a rebalance is required": it revokes all and joins.
    assert group.beat("C", 22).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert phase_of(group, "C") == "PrepareRebalance"
    assert group.join("C", generation=22, embedded_version=3).generation == 23
    assert phase_of(group, "C") == "CompletingRebalance"
    members = {"A": (23, {0, 1, 3}), "C": (23, {2, 5, 4})}
    assert drawn(group) == (23, 23, target, members)

    # "C sends the SyncGroup request and collects its new assignment": Stable.
    assert group.sync_assignment("C", 23) == foo(2, 4, 5)
    assert phase_of(group, "C") == "Stable"

    # "B rejoins the group with the new protocol."
    group.native("B")
    target = {"A": {0, 1}, "B": {3, 4}, "C": {2, 5}}
    members = {"A": (23, {0, 1, 3}), "B": (24, set()), "C": (23, {2, 5, 4})}
    assert drawn(group) == (24, 24, target, members)

    # A is told to revoke foo-3, B gets nothing yet, C is told to rebalance: it revokes all.
    assert group.names_of(group.native("A", 23, owned=foo(0, 1, 3)).assignment) == foo(0, 1)
    assert group.native("B", 24).assignment is None
    assert group.beat("C", 23).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert phase_of(group, "C") == "PrepareRebalance"
    assert group.join("C", generation=23, embedded_version=3).generation == 24
    assert phase_of(group, "C") == "CompletingRebalance"
    assert group.names_of(group.native("B", 24).assignment) == foo(4)
    members = {"A": (23, {0, 1}), "B": (24, {4}), "C": (24, {2, 5})}
    assert drawn(group) == (24, 24, target, members)
    assert group.sync_assignment("C", 24) == foo(2, 5)
    assert phase_of(group, "C") == "Stable"

    # "A heartbeats. He confirms the revocation of foo-3." "B heartbeats and gets its assignment."
    assert group.native("A", 23, owned=foo(0, 1)).member_epoch == 24
    assert group.names_of(group.native("B", 24).assignment) == foo(3, 4)
    members = {"A": (24, {0, 1}), "B": (24, {3, 4}), "C": (24, {2, 5})}
    assert drawn(group) == (24, 24, target, members)
    assert group.view().state == "Stable"
