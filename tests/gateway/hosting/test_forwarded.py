"""What is known of a forwarded group after each request, answer and description."""

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.hosting import forwarded
from gateway.hosting.answers import GroupApi
from gateway.hosting.calls import Commits
from gateway.hosting.forwarded import (
    BYTES_PER_GROUP_MAX,
    MEMBERS_MAX,
    Client,
    WatchedGroup,
    WatchedGroups,
    WatchedMember,
)
from kafka_codecs.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import (
    JoinGroupMember,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from kafka_codecs.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kafka_codecs.sync_group import SyncGroupAssignment, SyncGroupRequest, SyncGroupResponse
from tests.support.hosted_scene import commit_of_client

GROUP = "orders"
LIBRDKAFKA = Client(
    client_id="payments",
    client_host="/10.0.0.1",
    software_name="librdkafka",
    software_version="2.11.1",
)


class Relay:
    """Requests of one group that pass with their answers."""

    def __init__(self) -> None:
        self.groups = WatchedGroups()
        self.now_ms = 1_000

    @property
    def group(self) -> WatchedGroup:
        """What is known."""
        group = self.groups.group(GROUP)
        assert group is not None
        return group

    def member(self, member_id: str) -> WatchedMember:
        return self.group.members[member_id]

    def pass_on(self, request: Struct, answer: Struct, group_id: str = GROUP) -> None:
        self.groups.record_relayed(group_id, LIBRDKAFKA, request, answer, self.now_ms)

    def join(
        self,
        member_id: str,
        generation: int,
        *,
        leader: str = "a",
        instance_id: str | None = None,
        others: Sequence[str] = (),
        error: ErrorCode = ErrorCode.NONE,
        metadata: bytes = b"meta",
        group_id: str = GROUP,
    ) -> None:
        """`others`: the members that the answer lists besides the leader itself."""
        listed = (member_id, *others) if member_id == leader else ()
        self.pass_on(
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=300_000,
                member_id=member_id,
                group_instance_id=instance_id,
                protocol_type="consumer",
                protocols=(
                    JoinGroupProtocol(name="range", metadata=metadata),
                    JoinGroupProtocol(name="roundrobin", metadata=metadata),
                ),
            ),
            JoinGroupResponse(
                error_code=error,
                generation_id=generation,
                protocol_name="range",
                leader=leader,
                member_id=member_id,
                members=tuple(
                    JoinGroupMember(member_id=member_id, metadata=b"of " + member_id.encode())
                    for member_id in listed
                ),
            ),
            group_id,
        )

    def sync(self, member_id: str, generation: int, *assigned: str, error: int = 0) -> None:
        """`assigned`: the members in the request's assignments."""
        self.pass_on(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=generation,
                member_id=member_id,
                assignments=tuple(
                    SyncGroupAssignment(member_id=member_id, assignment=b"to " + member_id.encode())
                    for member_id in assigned
                ),
            ),
            SyncGroupResponse(error_code=error, assignment=b"to " + member_id.encode()),
        )

    def beat(self, member_id: str, generation: int, error: ErrorCode = ErrorCode.NONE) -> None:
        self.pass_on(
            HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id),
            HeartbeatResponse(error_code=error),
        )

    def leave(self, member_id: str, **how: Any) -> None:
        """`how`: fields of the answer about the member."""
        answer = MemberResponse(
            **{"member_id": member_id, "group_instance_id": None, "error_code": 0, **how}
        )
        self.pass_on(
            LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member_id),)),
            LeaveGroupResponse(members=(answer,)),
        )

    def describe(self, *member_ids: str, state: str = "Stable", group_id: str = GROUP) -> None:
        is_stable = state == "Stable"
        self.groups.record_described(
            DescribedGroup(
                group_id=group_id,
                group_state=state,
                protocol_type="consumer",
                protocol_data="range" if is_stable else "",
                members=tuple(
                    DescribedGroupMember(
                        member_id=member_id,
                        client_id="beside",
                        client_host="/10.0.0.2",
                        member_metadata=b"of " + member_id.encode() if is_stable else b"",
                        member_assignment=b"to " + member_id.encode() if is_stable else b"",
                    )
                    for member_id in member_ids
                ),
            )
        )


def commits_of(member_id: str, connection: int | None) -> Commits:
    commit = commit_of_client(member_id, 3, {"foo": [0]})
    return Commits(api=GroupApi.COMMIT, connection=connection, commits={commit.token: commit})


@pytest.fixture
def on() -> Relay:
    """A group about which nothing is known."""
    return Relay()


def test_a_join_shows_all_about_its_member(on: Relay) -> None:
    """Its timeouts, its whole list of protocols, its client and the client's software."""
    on.join("b", 3, instance_id="i")
    member = on.member("b")
    assert (on.group.generation, on.group.protocol, on.group.leader_id) == (3, "range", "a")
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (45_000, 300_000)
    assert member.protocols == (("range", b"meta"), ("roundrobin", b"meta"))
    assert (member.client_id, member.client_host) == ("payments", "/10.0.0.1")
    assert (member.software_name, member.software_version) == ("librdkafka", "2.11.1")
    assert (member.instance_id, member.joined_here, member.heartbeat_ms) == ("i", True, 1_000)


def test_a_join_before_v1_has_its_session_timeout_for_rebalances(on: Relay) -> None:
    """A broker does the same (rule 1.2)."""
    on.pass_on(
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=6_000,
            member_id="a",
            protocol_type="consumer",
            protocols=(),
        ),
        JoinGroupResponse(generation_id=1, protocol_name="range", leader="a", member_id="a"),
    )
    assert on.member("a").rebalance_timeout_ms == 6_000


def test_the_leader_is_told_who_is_in_the_generation(on: Relay) -> None:
    """Members that bypass the gateway appear, and those that did not rejoin go."""
    on.describe("a", "b", "gone")
    on.join("b", 3)
    on.join("a", 3, others=("b", "beside"))
    assert set(on.group.members) == {"a", "b", "beside"}
    beside = on.member("beside")
    assert beside.protocols == (("range", b"of beside"),)
    assert (beside.heartbeat_ms, beside.session_timeout_ms, beside.joined_here) == (
        None,
        None,
        False,
    )
    assert on.member("b").protocols[0] == ("range", b"meta")


def test_the_leaders_sync_shows_every_assignment(on: Relay) -> None:
    """The cluster ignores what another member sends as assignments, so they count for nothing."""
    on.join("b", 3)
    on.join("a", 3, others=("b",))
    on.sync("b", 3, "a")
    assert on.member("a").assignment == b""
    on.sync("a", 3, "a", "b")
    assert [on.member(member_id).assignment for member_id in "ab"] == [b"to a", b"to b"]


def test_a_new_generation_begins_without_leader_and_assignments(on: Relay) -> None:
    """If the leader bypasses the gateway, a heartbeat is the first to state its number."""
    on.join("a", 3)
    on.sync("a", 3, "a")
    on.beat("a", 4)
    assert (on.group.generation, on.group.leader_id, on.group.protocol) == (4, None, "")
    assert (on.member("a").assignment, on.member("a").joined_here) == (b"", False)
    assert on.member("a").session_timeout_ms == 45_000


def test_an_answer_of_an_earlier_generation_shows_nothing(on: Relay) -> None:
    """Answers come on several connections."""
    on.join("a", 4)
    on.now_ms = 2_000
    on.join("b", 3, leader="b")
    on.sync("b", 3)
    on.beat("a", 3, ErrorCode.REBALANCE_IN_PROGRESS)
    assert (on.group.generation, on.group.leader_id, on.group.protocol) == (4, "a", "range")
    assert set(on.group.members) == {"a"}
    assert on.member("a").heartbeat_ms == 1_000


def test_a_member_that_must_rejoin_is_still_one(on: Relay) -> None:
    """No protocol is in force meanwhile."""
    on.join("a", 3)
    on.now_ms = 2_000
    on.beat("a", 3, ErrorCode.REBALANCE_IN_PROGRESS)
    assert (on.member("a").heartbeat_ms, on.group.protocol) == (2_000, "")


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_a_removed_member_is_forgotten(on: Relay, error: ErrorCode) -> None:
    """Whatever it asked for."""
    for ask in (on.beat, on.sync, on.join):
        on.join("a", 3)
        on.join("b", 3)
        ask("b", 3, error=error)
        assert set(on.group.members) == {"a"}


@pytest.mark.parametrize("error", [ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NOT_COORDINATOR])
def test_a_failed_join_adds_no_member(on: Relay, error: ErrorCode) -> None:
    """The id that was handed out is no member yet."""
    on.join("a", -1, error=error)
    assert on.groups.group(GROUP) is None


def test_a_static_member_takes_the_place_of_its_predecessor(on: Relay) -> None:
    """Both members have the same instance id."""
    on.join("old", 3, instance_id="i")
    on.join("new", 3, instance_id="i")
    assert set(on.group.members) == {"new"}


def test_a_group_that_all_members_left_is_forgotten(on: Relay) -> None:
    """A failed leave changes nothing. A static member may be named by its instance id alone."""
    on.join("a", 3)
    on.join("s", 3, instance_id="i")
    on.leave("a", error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    on.leave("a")
    assert set(on.group.members) == {"s"}
    on.leave("", group_instance_id="i")
    assert on.groups.group(GROUP) is None


def test_a_restarted_gateway_learns_the_members_from_a_description(on: Relay) -> None:
    """A description has no generation, leader or timeouts. A heartbeat states the generation."""
    on.describe("a", "b")
    assert (on.group.generation, on.group.leader_id, on.group.protocol) == (None, None, "range")
    member = on.member("a")
    assert member.protocols == (("range", b"of a"),)
    assert (member.client_id, member.assignment) == ("beside", b"to a")
    assert (member.session_timeout_ms, member.heartbeat_ms) == (None, None)
    on.beat("a", 7)
    assert on.group.generation == 7
    assert on.member("a").heartbeat_ms == 1_000


def test_a_description_takes_nothing_from_what_was_relayed(on: Relay) -> None:
    """A description may be older. Members that it leaves out are gone."""
    on.join("a", 3)
    on.sync("a", 3, "a")
    on.join("gone", 3)
    on.describe("a", "b")
    assert set(on.group.members) == {"a", "b"}
    assert on.member("a").protocols == (("range", b"meta"), ("roundrobin", b"meta"))
    assert on.member("a").client_id == "payments"
    on.describe("a", "b", state="PreparingRebalance")
    assert on.group.protocol == ""
    assert on.member("b").protocols == (("range", b"of b"),)


def test_a_converted_group_is_not_watched(on: Relay) -> None:
    """A group of the new protocol has no generation that classic members share."""
    on.join("a", 3)
    on.pass_on(
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="n", member_epoch=0),
        ConsumerGroupHeartbeatResponse(member_id="n", member_epoch=4),
    )
    assert on.groups.group(GROUP) is None
    on.beat("a", 3)  # a classic member of the mixed group
    assert on.groups.group(GROUP) is None
    on.describe("a")  # it is classic again
    assert on.groups.group(GROUP) is not None


def test_a_join_with_a_leader_makes_a_converted_group_classic_again(on: Relay) -> None:
    """Its consumers were all stopped, and rolled back: the new group begins at generation 1. A
    classic member of a group of the new protocol does not learn of a leader."""
    on.join("a", 3)
    on.pass_on(
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="n", member_epoch=0),
        ConsumerGroupHeartbeatResponse(member_id="n", member_epoch=4),
    )
    on.join("a", 5, leader="")
    assert on.groups.group(GROUP) is None
    on.join("b", 1, leader="b")
    assert (on.group.generation, on.group.leader_id, {*on.group.members}) == (1, "b", {"b"})


def test_a_group_that_is_classic_again_has_none_of_its_former_members(on: Relay) -> None:
    """A follower's answer does not list the members, so it cannot show that others have gone."""
    on.join("a", 3)
    on.pass_on(
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="n", member_epoch=0),
        ConsumerGroupHeartbeatResponse(member_id="n", member_epoch=4),
    )
    on.join("c", 1, leader="b")
    assert {*on.group.members} == {"c"}


def test_a_group_is_known_as_a_whole_once_its_leader_has_synced_or_it_is_described(
    on: Relay,
) -> None:
    """Each time once."""
    on.join("a", 3, leader="a")
    on.sync("b", 3)
    assert on.groups.take_described() == set()
    on.sync("a", 3, "a")
    assert on.groups.take_described() == {GROUP}
    assert on.groups.take_described() == set()
    on.describe("a")
    assert on.groups.take_described() == {GROUP}
    assert on.group.protocol_type == "consumer"


# -- limits --------------------------------------------------------------------------------------


def test_a_group_with_too_many_members_is_not_watched(on: Relay) -> None:
    """This holds until the group ends: some of its members do not show who all of them are."""
    on.describe(*map(str, range(MEMBERS_MAX + 1)))
    assert on.groups.group(GROUP) is None
    on.beat("1", 3)
    assert on.groups.group(GROUP) is None
    on.groups.forget(GROUP)
    on.join("a", 1)
    assert on.group.members


def test_a_group_with_too_much_metadata_is_not_watched(on: Relay) -> None:
    """Clients choose its length."""
    on.join("a", 3, metadata=bytes(BYTES_PER_GROUP_MAX // 2))
    assert on.groups.group(GROUP) is None


def test_the_names_of_members_count(on: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose their lengths, too."""
    monkeypatch.setattr(forwarded, "BYTES_PER_GROUP_MAX", 10_000)
    on.join("a", 3, instance_id="x" * 10_000)
    assert on.groups.group(GROUP) is None


def test_of_too_many_groups_the_longest_silent_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request makes its group the latest."""
    monkeypatch.setattr(forwarded, "GROUPS_MAX", 2)
    on = Relay()
    on.join("a", 3)
    on.join("x", 1, group_id="second")
    on.beat("a", 3)
    on.join("x", 1, group_id="third")
    assert on.group.members
    assert on.groups.group("second") is None


def test_all_groups_together_have_a_limit(on: Relay, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends gives its bytes back."""
    monkeypatch.setattr(forwarded, "BYTES_MAX", 5_000)
    for group_id in ("first", "second", "first", "second"):
        on.join("a", 1, group_id=group_id, metadata=bytes(1_000))
    assert on.groups.group("first") is None
    on.groups.forget("second")
    on.join("a", 1, group_id="first", metadata=bytes(1_000))
    assert on.groups.group("first")


def test_the_connections_on_which_members_commit_are_known(on: Relay) -> None:
    """A commit on an older one is late. Who is no member behind the gateway is not remembered."""
    on.groups.record_commit(GROUP, commits_of("a", connection=7))
    assert on.groups.group(GROUP) is None
    on.join("b", 3)
    for member_id in ("b", "stranger"):
        on.groups.record_commit(GROUP, commits_of(member_id, connection=7))
    on.groups.record_commit(GROUP, commits_of("b", connection=None))
    assert on.group.committed_on.has_newer(("b",), 6)
    assert not on.group.committed_on.has_newer(("b",), 7)
    assert not on.group.committed_on.has_newer(("stranger",), 6)


def test_a_heartbeat_does_not_touch_the_other_members(on: Relay) -> None:
    """Its cost does not grow with the group."""
    on.describe(*map(str, range(100)))
    on.beat("1", 3)
    before = dict(on.group.members)
    on.now_ms = 2_000
    on.beat("1", 3)
    changed = [
        member_id for member_id in before if on.group.members[member_id] is not before[member_id]
    ]
    assert changed == ["1"]
