"""Scenarios 72 to 99: the sentences of KIP-848 about client-side assignors (rule 9.7)."""

from collections.abc import Mapping

import pytest

from coordinator.consumer.external_assignors import RETRY_MS
from coordinator.consumer.selection import COMPUTATION_MS_MAX
from coordinator.interface.records import AssignmentMetadata, ClientAssignor
from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.volatile_records import ComputationFailed
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.error_codes import ErrorCode
from tests.coordinator.conftest import MakeGroup
from tests.support.client_assignors import CLIENT_SIDE, weighted_assignor
from tests.support.group_records import given_classic_group_member
from tests.support.group_script import (
    GroupScript,
    Owned,
    embedded_assignment,
    make_topics,
    partitions,
    subscription,
    topic_id,
)

ALL = {"foo": (0, 1, 2, 3)}
HALVES: Mapping[str, Owned] = {"n1": {"foo": (0, 1)}, "n2": {"foo": (2, 3)}}


@pytest.fixture
def group(make_group: MakeGroup) -> GroupScript:
    """A group whose members may compute the target, with four partitions."""
    return make_group(config=CLIENT_SIDE, topics=make_topics(foo=4))


def joins(
    group: GroupScript, member_id: str, *assignors: ClientAssignor, timeout_ms: int = 10_000
) -> None:
    """A member joins, and does not compute anything yet."""
    group.native(
        member_id,
        client_assignors=assignors or (weighted_assignor(),),
        rebalance_timeout_ms=timeout_ms,
    )


def epoch_of(group: GroupScript, member_id: str) -> int:
    return group.consumer.assignments[member_id].member_epoch


def is_told(group: GroupScript, member_id: str) -> bool:
    return group.native(member_id, epoch_of(group, member_id)).should_compute


def computes(group: GroupScript, member_id: str, target: Mapping[str, Owned]) -> None:
    """The member that was told computes this target."""
    epoch = epoch_of(group, member_id)
    prepared = group.prepare(member_id, epoch)
    assert prepared.error == 0, group.transcript()
    installed = group.install(member_id, epoch, prepared.group_epoch, target)
    assert installed.error == 0, group.transcript()


@pytest.fixture
def settled_group(group: GroupScript) -> GroupScript:
    """n1 has all four partitions, and n2 has just joined. n2 was told to compute the target."""
    joins(group, "n1")
    computes(group, "n1", {"n1": {"foo": (0, 1, 2, 3)}})
    group.native("n1", epoch_of(group, "n1"))
    joins(group, "n2")
    return group


def failures(group: GroupScript) -> list[str]:
    """Why the last step kept the target."""
    return [
        record.reason for record in group.last_step.records if isinstance(record, ComputationFailed)
    ]


def target(group: GroupScript) -> dict[str, Mapping[str, tuple[int, ...]]]:
    return {id_: group.names_of(group.consumer.target_of(id_)) for id_ in group.consumer.members}


def test_72_a_heartbeat_tells_the_chosen_member(group: GroupScript) -> None:
    """One member, and no other. It is told again until it asks for the group."""
    assert group.native("n1", client_assignors=[weighted_assignor()]).should_compute
    assert not group.native("n2", client_assignors=[weighted_assignor()]).should_compute
    assert is_told(group, "n1")
    group.prepare("n1", epoch_of(group, "n1"))
    assert not is_told(group, "n1")
    assert group.view().assignor == "weighted"


def test_73_the_chosen_member_gets_the_group_and_its_target(settled_group: GroupScript) -> None:
    """The answer has what each member says: reason, version and metadata, instance and rack."""
    settled_group.native(
        "n1", 2, client_assignors=[weighted_assignor(1, 2, metadata=b"heavy", reason=1)]
    )
    settled_group.native("n3", instance_id="i", rack_id="r", client_assignors=[weighted_assignor()])
    prepared = settled_group.prepare("n2", 2)
    assert (prepared.group_epoch, prepared.assignor) == (5, "weighted")
    n1, n2, n3 = prepared.members
    assert (n1.member_id, n1.reason, n1.version, n1.metadata) == ("n1", 1, 2, b"heavy")
    assert n1.target == partitions({"foo": (0, 1, 2, 3)})
    assert n1.topic_ids == n2.topic_ids == {topic_id("foo")}
    assert (n2.member_epoch, n2.metadata, n2.target) == (2, b"", frozenset())
    assert (n3.instance_id, n3.rack_id) == ("i", "r")
    assert prepared.topics == ((topic_id("foo"), "foo", 4),)


def test_74_the_target_is_validated_and_installed(settled_group: GroupScript) -> None:
    """The target is durable, and the assignor's metadata goes along with the partitions."""
    metadata = AssignmentMetadata(version=3, metadata=b"two each")
    epoch = settled_group.prepare("n2", 2).group_epoch
    assert settled_group.install("n2", 2, epoch, HALVES, metadata={"n2": metadata}).error == 0
    settled_group.restart()
    assert target(settled_group) == HALVES
    assert settled_group.consumer.assignor == "weighted"
    assert settled_group.consumer.assignment_epoch == settled_group.consumer.epoch
    settled_group.native("n1", 2, owned={"foo": (0, 1, 2, 3)})
    settled_group.native("n1", 2, owned={"foo": (0, 1)})
    reply = settled_group.native("n2", 2)
    assert settled_group.names_of(reply.assignment) == {"foo": (2, 3)}
    assert reply.assignment_metadata == metadata


def test_74_metadata_belongs_to_the_epoch_of_its_target(settled_group: GroupScript) -> None:
    """A member that has yet to give up partitions hears nothing of the next epoch's."""
    metadata = {id_: AssignmentMetadata(version=3, metadata=id_.encode()) for id_ in HALVES}
    epoch = settled_group.prepare("n2", 2).group_epoch
    settled_group.install("n2", 2, epoch, HALVES, metadata=metadata)
    revokes = settled_group.native("n1", 2, owned={"foo": (0, 1, 2, 3)})
    assert settled_group.names_of(revokes.assignment) == {"foo": (0, 1)}
    assert (revokes.member_epoch, revokes.assignment_metadata) == (2, None)
    advances = settled_group.native("n1", 2, owned={"foo": (0, 1)})
    assert (advances.member_epoch, advances.assignment_metadata) == (epoch, metadata["n1"])


def test_75_a_valid_target_is_installed_although_the_group_epoch_grew(
    settled_group: GroupScript,
) -> None:
    """The next target is computed after that."""
    epoch = settled_group.prepare("n2", 2).group_epoch
    joins(settled_group, "n3")
    assert settled_group.consumer.epoch > epoch
    assert settled_group.install("n2", 2, epoch, HALVES).error == 0
    assert target(settled_group) == {**HALVES, "n3": {}}
    assert settled_group.consumer.assignment_epoch == epoch < settled_group.consumer.epoch
    assert is_told(settled_group, "n3")


def test_76_one_computation_is_in_flight_at_a_time(settled_group: GroupScript) -> None:
    """Whatever happens meanwhile, no second member is told."""
    settled_group.prepare("n2", 2)
    joins(settled_group, "n3")
    assert not any(is_told(settled_group, member_id) for member_id in ("n1", "n2", "n3"))


@pytest.mark.parametrize(("waits_ms", "error"), [(9_999, 0), (10_000, 25)])
def test_77_the_member_has_its_rebalance_timeout(
    settled_group: GroupScript, waits_ms: int, error: int
) -> None:
    """The timeout counts from when it was told; asking for the group does not prolong it."""
    settled_group.wait(5_000)
    epoch = settled_group.prepare("n2", 2).group_epoch
    settled_group.wait(waits_ms - 5_000)
    assert settled_group.install("n2", 2, epoch, HALVES).error == error


def test_77_a_long_rebalance_timeout_counts_as_five_minutes(group: GroupScript) -> None:
    """The whole group waits for the target (DEV D87)."""
    joins(group, "n1", timeout_ms=2**31 - 1)
    for _ in range(9):
        group.wait(30_000)
        assert is_told(group, "n1")
    group.wait(30_000)
    group.native("n1", epoch_of(group, "n1"))
    assert failures(group) == ["'n1' did not install a target in time"]


def test_78_then_another_member_is_chosen_and_the_first_is_not_fenced(
    settled_group: GroupScript,
) -> None:
    """Its target comes too late. When all have failed, the first may try again."""
    epoch = settled_group.prepare("n2", 2).group_epoch
    settled_group.wait(10_000)
    assert not is_told(settled_group, "n2")
    assert settled_group.last_step.replies[0][1].error == 0
    assert is_told(settled_group, "n1")
    late = settled_group.install("n2", 2, epoch, HALVES)
    assert late.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert settled_group.consumer.assignment_epoch < settled_group.consumer.epoch
    settled_group.native("n2", 2)
    settled_group.wait(10_000)
    assert [is_told(settled_group, member_id) for member_id in ("n1", "n2")] == [False, True]


@pytest.mark.parametrize("has_asked", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
def test_79_a_chosen_member_that_goes_is_replaced_at_once(
    settled_group: GroupScript, *, leaves: bool, has_asked: bool
) -> None:
    """The same happens to one that no longer handles all versions, unless it has asked for the
    group before."""
    settled_group.native("n1", 2, client_assignors=[weighted_assignor(version=1)])
    if has_asked:
        settled_group.prepare("n2", 2)
    if leaves:
        settled_group.native("n2", -1)
    else:
        assert not settled_group.native(
            "n2", 2, client_assignors=[weighted_assignor(2, 3)]
        ).should_compute
    assert is_told(settled_group, "n1") is (leaves or not has_asked)


def test_80_a_joiner_whose_versions_overlap_with_nobodys_is_refused(group: GroupScript) -> None:
    """So is a change to such versions. Other assignors may overlap."""
    joins(group, "n1", weighted_assignor(0, 3))
    joins(group, "n2", weighted_assignor(2, 5))
    why_not = group.native("n3", client_assignors=[weighted_assignor(6, 7)])
    assert why_not.error is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "n3" not in group.consumer.members
    epoch = epoch_of(group, "n1")
    for alone in (weighted_assignor(6, 6), weighted_assignor(0, 1)):
        assert group.native("n1", epoch, client_assignors=[alone]).error == 112
    assert group.native("n4", client_assignors=[weighted_assignor(5, 7)]).error == 0
    assert (
        group.native(
            "n5", client_assignors=[weighted_assignor(9, 9), weighted_assignor(name="x")]
        ).error
        == 112
    )


def test_80_a_member_stays_although_the_one_it_overlapped_with_has_left(
    group: GroupScript,
) -> None:
    """Only a joiner, or a change, is refused."""
    joins(group, "n1", weighted_assignor(0, 2))
    joins(group, "n2", weighted_assignor(2, 4))
    joins(group, "n3", weighted_assignor(4, 6))
    group.native("n2", -1)
    for assignors in (None, [weighted_assignor(4, 6)]):
        assert group.native("n3", epoch_of(group, "n3"), client_assignors=assignors).error == 0
    assert group.consumer.assignor == "uniform"


def test_81_the_chosen_member_handles_all_versions(group: GroupScript) -> None:
    """The KIP's example: A [1-5], B [3-4], C [2-4]."""
    joins(group, "B", weighted_assignor(3, 4))
    joins(group, "C", weighted_assignor(2, 4, version=2))
    computes(group, "C", {"C": {"foo": (0, 1, 2, 3)}})
    joins(group, "A", weighted_assignor(1, 5))
    assert [is_told(group, member_id) for member_id in "BCA"] == [False, False, True]


def test_82_without_a_member_that_handles_all_versions_the_server_computes(
    group: GroupScript,
) -> None:
    """The group is not stuck."""
    joins(group, "n1", weighted_assignor(1, 3, version=1))
    joins(group, "n2", weighted_assignor(3, 5))
    assert group.consumer.assignor == "uniform"
    assert group.consumer.assignment_epoch == group.consumer.epoch
    group.native("n1", epoch_of(group, "n1"), client_assignors=[weighted_assignor(1, 3)])
    assert [is_told(group, member_id) for member_id in ("n1", "n2")] == [False, True]


WRONG = {
    "missing": {"n1": {"foo": (0, 1)}, "n2": {"foo": (2,)}},
    "twice": {"n1": {"foo": (0, 1, 2)}, "n2": {"foo": (2, 3)}},
    "nonexistent": {"n1": {"foo": (0, 1)}, "n2": {"foo": (2, 3, 4)}},
    "stranger": {**HALVES, "n9": {}},
    "left_out": {"n2": {"foo": (0, 1)}},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_83_a_wrong_target_is_refused(
    settled_group: GroupScript, wrong: Mapping[str, Owned]
) -> None:
    """All partitions, each once, known members. The group keeps its target, and tries again with
    another member."""
    before = target(settled_group)
    epoch = settled_group.prepare("n2", 2).group_epoch
    reply = settled_group.install("n2", 2, epoch, wrong)
    assert reply.error is ErrorCode.INVALID_ASSIGNMENT
    assert failures(settled_group) == [reply.reason]
    assert target(settled_group) == before
    settled_group.wait(RETRY_MS - 1)
    assert not is_told(settled_group, "n1")
    settled_group.wait(1)
    assert not is_told(settled_group, "n2")
    assert is_told(settled_group, "n1")


def test_84_a_target_is_validated_against_what_it_was_computed_from(
    settled_group: GroupScript,
) -> None:
    """A member that left since is a known member. It loses its share."""
    epoch = settled_group.prepare("n2", 2).group_epoch
    settled_group.native("n1", -1)
    settled_group.topics = make_topics(version=2, foo=6)
    assert settled_group.install("n2", 2, epoch, HALVES).error == 0
    assert target(settled_group) == {"n2": {"foo": (2, 3)}}
    assert is_told(settled_group, "n2")


def test_85_an_error_of_the_assignor_keeps_the_target(settled_group: GroupScript) -> None:
    """The error is no error of the request, and visible. The members hear of it with their
    assignment."""
    before = target(settled_group)
    epoch = settled_group.prepare("n2", 2).group_epoch
    assert settled_group.install("n2", 2, epoch, error=7).error == 0
    assert failures(settled_group) == ["the assignor gave the error 7"]
    assert target(settled_group) == before
    settled_group.wait(RETRY_MS)
    assert settled_group.native("n1", 2, owned={"foo": (0, 1)}).assignment_error == 7
    computes(settled_group, "n1", HALVES)
    assert settled_group.consumer.assignment_error == 0


def test_86_a_client_side_assignor_is_used_if_all_members_support_it(group: GroupScript) -> None:
    """If not, a server-side assignor is used immediately: the group does not wait for the
    computation."""
    joins(group, "n1")
    assert group.consumer.assignment_epoch < group.consumer.epoch
    epoch = group.prepare("n1", 1).group_epoch
    group.native("n2")
    assert group.consumer.assignor == "uniform"
    assert group.consumer.assignment_epoch == group.consumer.epoch
    late = group.install("n1", epoch_of(group, "n1"), epoch, {"n1": {"foo": (0, 1, 2, 3)}})
    assert late.error is ErrorCode.UNKNOWN_MEMBER_ID
    group.native("n2", -1)
    assert is_told(group, "n1")


def test_87_of_several_the_members_preference_decides(group: GroupScript) -> None:
    """Most first preferences among those that all support; by name in a tie."""
    a, b, c = weighted_assignor(name="a"), weighted_assignor(name="b"), weighted_assignor(name="c")
    joins(group, "n1", b, a)
    assert group.view().assignor == "b"
    joins(group, "n2", a, b, c)
    assert group.view().assignor == "a"
    joins(group, "n3", c, b, a)
    joins(group, "n4", b, a)
    assert group.view().assignor == "b"


@pytest.mark.parametrize(
    "changed",
    [
        (weighted_assignor(metadata=b"lag"),),
        (weighted_assignor(reason=2),),
        (weighted_assignor(0, 4, version=3),),
        (weighted_assignor(version=2),),
        (weighted_assignor(), weighted_assignor(name="another")),
        (),
    ],
)
def test_88_what_a_member_says_to_its_assignors_calls_for_a_new_target(
    settled_group: GroupScript, changed: tuple[ClientAssignor, ...]
) -> None:
    """A repetition does not. A heartbeat that says nothing about them does not either."""
    computes(settled_group, "n2", HALVES)
    before = settled_group.consumer.epoch
    epoch = epoch_of(settled_group, "n1")
    settled_group.native("n1", epoch, client_assignors=[weighted_assignor()])
    settled_group.native("n1", epoch)
    assert settled_group.consumer.epoch == before
    settled_group.native("n1", epoch, client_assignors=changed)
    assert settled_group.consumer.epoch == before + 1
    assert settled_group.consumer.members["n1"].client_assignors == changed


SEVEN = subscription(["foo"], user_data=b"7")
WEIGHTS = (("weighted", SEVEN),)
HALF_EACH: Mapping[str, Owned] = {"c1": {"foo": (0, 1)}, "n1": {"foo": (2, 3)}}


@pytest.fixture
def classic(group: GroupScript) -> GroupScript:
    """A classic group whose assignor reads and writes user data."""
    group.given_classic_group(
        given_classic_group_member(
            "c1",
            protocol="weighted",
            metadata=SEVEN,
            assignment=embedded_assignment(ALL, user_data=b"all"),
        ),
        generation=5,
    )
    return group


def rolls(group: GroupScript) -> None:
    """n1 joins the classic group, computes a target that gives it half, and gets that."""
    group.native("n1", client_assignors=[weighted_assignor(-1, 3)])
    metadata = {id_: AssignmentMetadata(version=-1, metadata=id_.encode()) for id_ in HALF_EACH}
    epoch = group.prepare("n1", epoch_of(group, "n1")).group_epoch
    reply = group.install("n1", epoch_of(group, "n1"), epoch, HALF_EACH, metadata=metadata)
    assert reply.error == 0, group.transcript()
    group.beat("c1", 5)
    group.join("c1", protocols=WEIGHTS, owned=ALL, generation=5)


def test_89_user_data_of_classic_members_becomes_metadata_of_version_minus_1(
    classic: GroupScript,
) -> None:
    """What the assignor says to them goes back as user data."""
    assert classic.native("n1", client_assignors=[weighted_assignor(-1, 3)]).should_compute
    c1, n1 = classic.prepare("n1", epoch_of(classic, "n1")).members
    assert (c1.version, c1.metadata, n1.version) == (-1, b"7", 3)
    assert c1.target == partitions(ALL)
    rolls(classic)
    generation = epoch_of(classic, "c1")
    synced = classic.sync("c1", generation, protocol_name="weighted")
    assert decode_assignment(synced.assignment)[1].user_data == b"c1"


@pytest.mark.parametrize(
    ("assignors", "error"),
    [
        ((weighted_assignor(-1, 3),), 0),
        ((weighted_assignor(-1, 3), weighted_assignor(name="other")), 0),
        ((weighted_assignor(0, 3),), 69),
        ((weighted_assignor(-1, 3, name="other"),), 69),
        ((), 69),
    ],
)
def test_90_a_classic_group_with_a_custom_assignor_needs_a_joiner_that_continues_with_it(
    classic: GroupScript, assignors: tuple[ClientAssignor, ...], error: int
) -> None:
    """Refused as ever otherwise. A SyncGroup after the conversion still has the user data."""
    assert classic.native("n1", client_assignors=assignors).error == error
    if error:
        assert classic.view().group_type == "classic"
        return
    assert classic.view().assignor == "weighted"
    assert classic.names_of(classic.consumer.target_of("c1")) == ALL
    assert classic.consumer.target_metadata["c1"] == AssignmentMetadata(version=-1, metadata=b"all")


def test_91_the_group_goes_back_with_the_protocol_of_the_classic_members(
    classic: GroupScript,
) -> None:
    """The assignor's words to each member stay, until the classic leader assigns again."""
    rolls(classic)
    classic.sync("c1", epoch_of(classic, "c1"), protocol_name="weighted")
    classic.native("n1", -1)
    assert classic.view().group_type == "classic"
    (c1,) = classic.classic.members.values()
    assert decode_assignment(c1.assignment)[1].user_data == b"c1"
    token = classic.send_join("c1", protocols=WEIGHTS, owned=HALF_EACH["c1"])
    joined = classic.answer(token, JoinGroupReply)
    assert (joined.error, joined.protocol_name, joined.leader) == (0, "weighted", "c1")


def test_91_a_classic_member_that_rejoins_with_other_user_data_gets_a_new_target(
    classic: GroupScript,
) -> None:
    """A member that was told to rejoin does not cause one: it would rejoin for ever."""
    rolls(classic)
    classic.sync("c1", epoch_of(classic, "c1"), protocol_name="weighted")
    epoch = classic.consumer.epoch
    for user_data, epochs in ((b"7", 0), (b"8", 1), (b"8", 1)):
        metadata = subscription(["foo"], owned={"foo": (0, 1)}, user_data=user_data)
        generation = classic.join("c1", protocol="weighted", metadata=metadata).generation
        classic.sync("c1", generation, protocol_name="weighted")
        assert classic.consumer.epoch == epoch + epochs
    assert is_told(classic, "n1")
    computes(classic, "n1", HALF_EACH)
    assert classic.beat("c1", generation).error is ErrorCode.REBALANCE_IN_PROGRESS
    metadata = subscription(["foo"], owned={"foo": (0, 1)}, user_data=b"9")
    classic.join("c1", protocol="weighted", metadata=metadata)
    assert classic.consumer.epoch == epoch + 1


@pytest.mark.parametrize("has_asked", [False, True])
def test_92_only_the_session_fences_the_chosen_member(
    group: GroupScript, *, has_asked: bool
) -> None:
    """Another member is told when the session has ended, whatever time the computation may take."""
    joins(group, "n1", timeout_ms=COMPUTATION_MS_MAX)
    joins(group, "n2")
    if has_asked:
        group.prepare("n1", epoch_of(group, "n1"))
    session_ms = group.config.consumer_session_timeout_ms
    for wait_ms in (session_ms - 10, 9):
        group.wait(wait_ms)
        assert not is_told(group, "n2")
        assert "n1" in group.consumer.members
    group.wait(1)
    assert "n1" not in group.consumer.members
    assert is_told(group, "n2")


@pytest.mark.parametrize(
    "assignor",
    [
        weighted_assignor(name=""),
        weighted_assignor(-2, 3),
        weighted_assignor(-1, -1),
        weighted_assignor(3, 2, version=2),
        weighted_assignor(1, 3, version=0),
        weighted_assignor(1, 3, version=4),
    ],
)
def test_93_contradictory_assignors_are_an_invalid_request(
    settled_group: GroupScript, assignor: ClientAssignor
) -> None:
    """The rule holds for members and joiners, and nothing changes; so it does for both kinds of
    assignors together."""
    invalid = ErrorCode.INVALID_REQUEST
    assert settled_group.native("n1", 2, client_assignors=[assignor]).error is invalid
    assert (
        settled_group.native("n3", client_assignors=[weighted_assignor(), assignor]).error
        is invalid
    )
    both = settled_group.native("n1", 2, assignor="uniform", client_assignors=[weighted_assignor()])
    assert both.error is invalid
    assert settled_group.consumer.members["n1"].client_assignors == (weighted_assignor(),)
    assert "n3" not in settled_group.consumer.members


def test_94_a_server_side_assignor_must_be_supported_by_the_server(
    settled_group: GroupScript,
) -> None:
    """The name of a client-side one does not count. The most common one is used, if no client-side
    one is; the first configured one without any preference."""
    assert (
        settled_group.native("n1", 2, assignor="weighted").error is ErrorCode.UNSUPPORTED_ASSIGNOR
    )
    settled_group.native("n2", 2, client_assignors=[])
    assert settled_group.consumer.assignor == "uniform"
    settled_group.native("n1", epoch_of(settled_group, "n1"), assignor="range")
    assert settled_group.consumer.assignor == "range"


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        ("", 1, ErrorCode.INVALID_REQUEST),
        (" ", 1, ErrorCode.INVALID_REQUEST),
        ("n1", -1, ErrorCode.INVALID_REQUEST),
        ("n1", -2, ErrorCode.INVALID_REQUEST),
        ("n9", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n9", 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("n1", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("n1", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("n2", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("n2", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_95_prepare_and_install_are_checked_in_this_order(
    group: GroupScript, member_id: str, epoch: int, error: ErrorCode
) -> None:
    """The request, the group, the member, its epoch, the choice: n2 was not chosen. Nothing
    changes, so that the chosen member can continue."""
    assert group.prepare("n1", 1).error is ErrorCode.GROUP_ID_NOT_FOUND
    joins(group, "n1")
    joins(group, "n2")
    group_epoch = group.prepare("n1", 1).group_epoch
    everything = {"n1": ALL}
    for reply in (
        group.prepare(member_id, epoch),
        group.install(member_id, epoch, group_epoch, everything),
    ):
        assert reply.error is error
        assert not group.last_step.records
    assert group.install("n1", 1, group_epoch, everything).error == 0


@pytest.mark.parametrize("error", [ErrorCode.INVALID_REQUEST, ErrorCode.GROUP_ID_NOT_FOUND])
def test_95_a_classic_group_has_no_target(group: GroupScript, error: ErrorCode) -> None:
    """An invalid request is invalid there, too."""
    group.send_join(group.take_id())
    member_id = "" if error is ErrorCode.INVALID_REQUEST else "n1"
    assert group.prepare(member_id, 1).error is error
    assert group.install(member_id, 1, 1).error is error


def test_96_a_member_with_a_stale_epoch_tries_again_after_its_next_heartbeat(
    settled_group: GroupScript,
) -> None:
    """This holds for both requests. What it has computed is still good."""
    group_epoch = settled_group.prepare("n2", 2).group_epoch
    stale = ErrorCode.STALE_MEMBER_EPOCH
    assert settled_group.install("n2", 1, group_epoch, HALVES).error is stale
    assert settled_group.prepare("n2", 1).error is stale
    epoch = settled_group.native("n2", 2).member_epoch
    assert settled_group.install("n2", epoch, group_epoch, HALVES).error == 0


@pytest.mark.parametrize("has_asked", [False, True])
def test_97_after_a_failover_another_computation_begins(
    settled_group: GroupScript, *, has_asked: bool
) -> None:
    """The target is still due. What was computed before is refused, and changes nothing."""
    before = target(settled_group)
    epoch = (
        settled_group.prepare("n2", 2).group_epoch if has_asked else settled_group.consumer.epoch
    )
    settled_group.restart()
    assert settled_group.install("n2", 2, epoch, HALVES).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert target(settled_group) == before
    assert is_told(settled_group, "n1")
    assert settled_group.prepare("n2", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
    computes(settled_group, "n1", HALVES)
    assert target(settled_group) == HALVES


def test_98_what_the_members_and_the_assignor_say_is_durable(settled_group: GroupScript) -> None:
    """The records of members and of the target have it. An assignor's error is sent until the next
    target, or a restart, after which a member computes immediately."""
    assignor = weighted_assignor(1, 3, version=2, metadata=b"heavy", reason=1)
    settled_group.native("n1", 2, client_assignors=[assignor])
    metadata = {id_: AssignmentMetadata(version=2, metadata=id_.encode()) for id_ in HALVES}
    epoch = settled_group.prepare("n2", 2).group_epoch
    settled_group.install("n2", 2, epoch, HALVES, metadata=metadata)
    joins(settled_group, "n3")
    epoch = settled_group.prepare("n3", epoch_of(settled_group, "n3")).group_epoch
    settled_group.install("n3", epoch_of(settled_group, "n3"), epoch, error=7)
    assert settled_group.consumer.assignment_error == 7
    settled_group.restart()
    assert settled_group.consumer.members["n1"].client_assignors == (assignor,)
    assert settled_group.consumer.target_metadata == metadata
    assert settled_group.consumer.assignment_error == 0
    assert is_told(settled_group, "n2")


@pytest.mark.parametrize("has_asked", [False, True])
def test_99_a_conversion_ends_the_computation(classic: GroupScript, *, has_asked: bool) -> None:
    """The only native member computes and leaves; the group turns classic with the shares that it
    has. The next one that joins computes afresh."""
    classic.native("n1", client_assignors=[weighted_assignor(-1, 3)])
    group_epoch, epoch = classic.consumer.epoch, epoch_of(classic, "n1")
    if has_asked:
        group_epoch = classic.prepare("n1", epoch).group_epoch
    classic.native("n1", -1)
    assert classic.view().group_type == "classic"
    late = classic.install("n1", epoch, group_epoch, HALF_EACH)
    assert late.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert classic.native("n2", client_assignors=[weighted_assignor(-1, 3)]).should_compute
    assert classic.names_of(classic.consumer.target_of("c1")) == ALL
    late = classic.install("n1", epoch, group_epoch, HALF_EACH)
    assert late.error is ErrorCode.UNKNOWN_MEMBER_ID
