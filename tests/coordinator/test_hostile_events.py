"""Bad input changes nothing and harms no other member: any event, in every kind of group and
phase."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.group.classic_group import ClassicGroup
from coordinator.group.consumer_group import ConsumerGroup
from coordinator.group.state import GroupState
from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    InstallAssignmentReceived,
    JoinGroupReceived,
    LeaveGroupReceived,
    Leaver,
    OffsetCommitReceived,
    OffsetDeleteReceived,
    OffsetFetchReceived,
    PrepareAssignmentReceived,
    Request,
    SyncGroupReceived,
)
from coordinator.interface.records import AssignmentMetadata, ClientAssignor, MemberState
from coordinator.interface.replies import LeaveGroupReply
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.group_records import given_classic, given_classic_group_member, given_native
from tests.support.group_script import GroupScript, embedded_assignment, subscription, topic_id
from tests.support.hypothesis_profile import examples

LONGEST = 0x7FFF
"""Bytes of the longest string in Kafka's messages."""

TOKEN = 1_000_000

FOO_0, FOO_1 = {"foo": (0,)}, {"foo": (1,)}


def missing(_group: GroupScript) -> None:
    pass


def stable(group: GroupScript) -> None:
    group.given_classic_group(
        given_classic_group_member("c1", FOO_0),
        given_classic_group_member("c2", FOO_1, instance_id="i2"),
        generation=5,
    )


def preparing(group: GroupScript) -> None:
    stable(group)
    group.send_join("c1")


def completing(group: GroupScript) -> None:
    preparing(group)
    group.send_join("c2", instance_id="i2")
    group.send_sync("c2", 6, instance_id="i2")


def initial(group: GroupScript) -> None:
    group.send_join(group.take_id())
    group.take_id()


def connect(group: GroupScript) -> None:
    group.given_classic_group(
        given_classic_group_member("c1"), generation=5, protocol_type="connect"
    )


def unreadable(group: GroupScript) -> None:
    group.given_classic_group(
        given_classic_group_member("c1", metadata=b"junk", assignment=b"junk")
    )


def empty_group(group: GroupScript) -> None:
    group.native("n1")
    group.native("n1", -1)


def native(group: GroupScript) -> None:
    group.given_consumer_group(
        given_native("n1", epoch=5, assigned=FOO_0),
        given_native("n2", epoch=5, assigned=FOO_1, instance_id="i2"),
        epoch=5,
    )


def away(group: GroupScript) -> None:
    native(group)
    group.native("n2", -2, instance_id="i2")


def mixed_group(group: GroupScript) -> None:
    """Each classic member is in another phase, and each member in another state."""
    group.given_consumer_group(
        given_classic("c1", epoch=5, assigned=FOO_0),
        given_classic("c2", epoch=6, target=FOO_1, instance_id="i2"),
        given_classic(
            "c3", epoch=6, pending=FOO_1, target={}, state=MemberState.UNREVOKED_PARTITIONS
        ),
        given_native("n1", epoch=6, target={}, assigned={"foo": (2,)}),
        epoch=6,
    )
    group.join("c2", instance_id="i2", protocol="range")
    group.beat("c1", 5)


def computing(group: GroupScript) -> None:
    """n1 has asked for the group, in order to compute the target."""
    for member_id in ("n1", "n2"):
        group.native(member_id, client_assignors=[weighted_assignor()])
    group.prepare("n1", 1)


SITUATIONS: Mapping[str, Callable[[GroupScript], None]] = {
    event.__name__: event
    for event in (
        missing,
        stable,
        preparing,
        completing,
        initial,
        connect,
        unreadable,
        empty_group,
        native,
        away,
        mixed_group,
        computing,
    )
}

ids = st.sampled_from(
    ["", "c1", "c2", "c3", "n1", "n2", "i2", "nobody", " ", "\0", "\u00fc", "x" * LONGEST]
)
instance_ids = st.one_of(st.none(), ids)
int32s = st.one_of(st.sampled_from([-3, -2, -1, 0, 1, 5, 6, 7]), st.integers(-(2**31), 2**31 - 1))
names = st.sampled_from(["foo", "gone", "", "\0", "x" * LONGEST])
owned = st.dictionaries(names, st.lists(int32s, max_size=4), max_size=3)
metadata = st.one_of(
    st.binary(max_size=40),
    st.builds(
        subscription,
        st.lists(names, max_size=3),
        owned=owned,
        generation=int32s,
        version=st.integers(0, 3),
    ),
    st.builds(embedded_assignment, owned),
)
protocols = st.lists(st.tuples(st.sampled_from(["range", "", "sticky"]), metadata), max_size=3)
partitions = st.frozensets(
    st.builds(Partition, st.one_of(st.uuids(), st.just(topic_id("foo"))), int32s), max_size=4
)

assignors = st.builds(
    ClientAssignor,
    name=st.sampled_from(["weighted", "", "range"]),
    minimum_version=st.integers(-2, 4),
    maximum_version=st.integers(-2, 4),
    version=st.integers(-2, 4),
    metadata=st.binary(max_size=4),
)

FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    "token": st.just(TOKEN),
    "version": st.integers(0, 10),
    "member_id": ids,
    "instance_id": ids,
    "client_id": ids,
    "client_host": ids,
    "rack_id": ids,
    "fresh_id": st.uuids(),
    "protocol_type": st.sampled_from(["consumer", "consumer", "connect", ""]),
    "protocol_name": st.sampled_from(["range", "sticky"]),
    "protocols": protocols.map(tuple),
    "session_timeout_ms": st.one_of(st.just(10_000), int32s),
    "rebalance_timeout_ms": st.one_of(st.just(10_000), int32s),
    "generation": int32s,
    "member_epoch": st.one_of(st.just(1), int32s),
    "group_epoch": st.one_of(st.just(3), int32s),
    "epoch": int32s,
    "assignments": st.lists(st.tuples(ids, metadata), max_size=3).map(tuple),
    "members": st.lists(st.builds(Leaver, member_id=ids, instance_id=instance_ids)).map(tuple),
    "topic_names": st.lists(names, max_size=3).map(tuple),
    "topic_regex": st.sampled_from(["", "f.*", "(", "\0"]),
    "server_assignor": st.sampled_from(["range", "", "made-up"]),
    "client_assignors": st.lists(assignors, max_size=2).map(tuple),
    "owned": st.just(frozenset()) | partitions,
    "partitions": partitions,
    "is_transactional": st.booleans(),
    "error": st.integers(-1, 1),
    "target": st.dictionaries(ids, partitions, max_size=3),
    "metadata": st.dictionaries(
        ids, st.just(AssignmentMetadata(version=1, metadata=b"")), max_size=2
    ),
    "flaw": st.sampled_from(["", "twice"]),
}
"""Bad values of the requests' fields; a field that is not here keeps its default."""


def bad(kind: type[Request]) -> st.SearchStrategy[Request]:
    """Requests of a kind with such values."""
    drawn = {}
    for field in fields(kind):
        if field.name in FIELDS:
            values = FIELDS[field.name]
            if "frozenset[str]" in str(field.type):
                values = values.map(frozenset)
            drawn[field.name] = values | st.none() if "None" in str(field.type) else values
    return st.builds(kind, **drawn)


requests: st.SearchStrategy[Request] = st.one_of(
    *map(
        bad,
        (
            JoinGroupReceived,
            SyncGroupReceived,
            HeartbeatReceived,
            LeaveGroupReceived,
            ConsumerHeartbeatReceived,
            PrepareAssignmentReceived,
            InstallAssignmentReceived,
            OffsetCommitReceived,
            OffsetFetchReceived,
            OffsetDeleteReceived,
        ),
    )
)


def is_refused(group: GroupScript) -> bool:
    """Whether the answer refuses the request."""
    reply = group.answers.get(TOKEN)
    if isinstance(reply, LeaveGroupReply) and not reply.error:
        return all(member.error for member in reply.members)
    no_refusals = (
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.INVALID_ASSIGNMENT,  # which ends the computation
    )
    return reply is not None and bool(reply.error) and reply.error not in no_refusals


def named_by(event: Request, state: GroupState) -> set[str]:
    """The members that the event names."""
    instances: Mapping[str, str] = state.group.instances if state.group is not None else {}
    entries = event.members if isinstance(event, LeaveGroupReceived) else (event,)
    pairs = [(getattr(e, "member_id", None), getattr(e, "instance_id", None)) for e in entries]
    return {id_ or "" for id_, _ in pairs} | {instances.get(i or "", "") for _, i in pairs}


def others(state: GroupState, named: set[str]) -> dict[str, object]:
    """The state of the members that the event does not name."""
    match state.group:
        case ConsumerGroup() as group:
            return {
                id_: (member, group.assignments[id_].held_partitions)
                for id_, member in group.members.items()
                if id_ not in named
            }
        case ClassicGroup() as group:
            return {
                id_: (member.protocols, member.instance_id)
                for id_, member in group.members.items()
                if id_ not in named
            }
        case None:
            return {}


@pytest.mark.parametrize("situation", SITUATIONS)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(event=requests)
def test_bad_input_harms_no_other_member(situation: str, event: Request) -> None:
    """Every request is answered or parked. A refusal writes no record, unless it leaves a group
    without members. Members that the request does not name stay, and keep their partitions and
    descriptions."""
    group = GroupScript(config=CLIENT_SIDE if situation == "computing" else None)
    SITUATIONS[situation](group)
    named = named_by(event, group.engine.state)
    had_members = bool(group.view().members)
    kind, before = type(group.engine.state.group), others(group.engine.state, named)
    group.feed(event)
    if is_refused(group):
        is_first_join = isinstance(event, JoinGroupReceived) and not had_members
        assert is_first_join or group.last_step.records == (), group.transcript()
    after = others(group.engine.state, named)
    assert after.keys() >= before.keys(), group.transcript()
    if type(group.engine.state.group) is kind:
        assert {id_: after[id_] for id_ in before} == before, group.transcript()
    group.view()


MANY = 200
GROWTH_MAX = 6
"""The limit for the ratio of costs when the size grows fourfold. A quadratic cost would have a
ratio of sixteen."""


def calls_in(group: GroupScript, event: Request) -> int:
    """The number of function calls of a decision, a cost that does not depend on the machine's
    load."""
    count = 0

    def count_call(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(count_call)
    try:
        group.engine.handle(event, now_ms=group.now_ms, topics=group.topics)
    finally:
        sys.setprofile(None)
    return count


def calls_for_leavers(members: int, *, is_mixed: bool) -> int:
    group = GroupScript()
    many = [f"m{n}" for n in range(members)]
    if is_mixed:
        group.given_consumer_group(*(given_classic(id_) for id_ in many), given_native("n1"))
    else:
        group.given_classic_group(*(given_classic_group_member(id_) for id_ in many))
    leavers = (*many[:-1], *["nobody"] * members, *many[:-1])
    event = LeaveGroupReceived(token=TOKEN, members=tuple(Leaver(member_id=m) for m in leavers))
    return calls_in(group, event)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_the_cost_of_leaving_is_linear(is_mixed: bool) -> None:
    """Each entry costs the same, whether it names a member, no member, or one that has already
    left."""
    few, many = (calls_for_leavers(count, is_mixed=is_mixed) for count in (MANY, 4 * MANY))
    assert many < GROWTH_MAX * few


def long_sync(group: GroupScript, count: int) -> SyncGroupReceived:
    completing(group)
    return SyncGroupReceived(
        token=TOKEN,
        version=5,
        member_id=group.classic.core.leader or "",
        instance_id=None,
        generation=6,
        protocol_type="consumer",
        protocol_name="range",
        assignments=tuple((f"nobody-{n}", b"\0") for n in range(count)),
    )


def test_the_cost_of_assignments_is_linear() -> None:
    """The leader's assignments name members that do not exist."""
    group, larger = GroupScript(), GroupScript()
    event = long_sync(group, MANY)
    assert calls_in(larger, long_sync(larger, 4 * MANY)) < GROWTH_MAX * calls_in(group, event)
    group.feed(event)
    assert group.classic.members.keys() == {"c1", "c2"}


@pytest.mark.parametrize("protocol", ["classic", "native"])
def test_the_cost_of_owned_partitions_is_linear(protocol: str) -> None:
    """The list has partitions of a topic with three, of a nonexistent topic, and each of them
    twice."""
    group = GroupScript()
    mixed_group(group)
    numbers = [*range(MANY), *range(MANY)]
    if protocol == "classic":
        reply = group.join("c1", owned={"foo": numbers, "gone": numbers}, embedded_version=3)
        assert reply.error == ErrorCode.NONE
    else:
        assert group.native("n1", 6, owned={"foo": numbers, "gone": numbers}).error == 0
    assert group.engine.describe(group.topics).state in ("Assigning", "Reconciling", "Stable")
