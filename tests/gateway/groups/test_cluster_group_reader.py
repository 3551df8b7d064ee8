"""What the cluster says of its groups. test_group_routing.py tests what follows from it,
test_group_routing_with_kafka.py asks real brokers."""

from collections import Counter
from dataclasses import replace

import pytest

from gateway.cluster.errors import UpstreamError
from gateway.groups.cluster_group_reader import GROUPS_PER_LOOKUP_MAX, ClusterGroupReader
from gateway.hosting.lookup_outcome import (
    BrokerTooOld,
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
)
from kafka_codecs import consumer_group_describe, describe_groups
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    MemberType,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.hosted_groups import ScriptedCluster

KAFKA_2_3: dict[int, tuple[int, int]] = {
    ApiKey.DESCRIBE_GROUPS: (0, 3),
    ApiKey.JOIN_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 3),
    ApiKey.HEARTBEAT: (0, 3),
    ApiKey.LEAVE_GROUP: (0, 2),
    ApiKey.OFFSET_COMMIT: (0, 7),
}


def classic(
    *client_ids: str, protocol_type: str = "consumer", protocol: str = "", error_code: int = 0
) -> DescribeGroupsResponse:
    """An answer of DescribeGroups."""
    members = tuple(
        describe_groups.DescribedGroupMember(
            member_id=f"{client_id}-1",
            client_id=client_id,
            client_host="/",
            member_metadata=b"",
            member_assignment=b"",
        )
        for client_id in client_ids
    )
    group = describe_groups.DescribedGroup(
        group_id="g",
        error_code=error_code,
        protocol_type=protocol_type,
        protocol_data=protocol,
        members=members,
    )
    return DescribeGroupsResponse(groups=(group,))


def native(*client_ids: str, error_code: int = 0) -> ConsumerGroupDescribeResponse:
    """An answer of ConsumerGroupDescribe."""
    members = tuple(
        consumer_group_describe.Member(
            member_id=f"{client_id}-1",
            client_id=client_id,
            client_host="/",
            member_epoch=1,
            subscribed_topic_names=(),
            assignment=consumer_group_describe.Assignment(topic_partitions=()),
            target_assignment=consumer_group_describe.Assignment(topic_partitions=()),
        )
        for client_id in client_ids
    )
    group = consumer_group_describe.DescribedGroup(
        group_id="g", error_code=error_code, members=members
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def cluster_that_says(
    to_classic: DescribeGroupsResponse, to_native: ConsumerGroupDescribeResponse | None = None
) -> ScriptedCluster:
    """A cluster with these answers for any group. It supports the native protocol if it has such an
    answer."""
    cluster = ScriptedCluster()
    cluster.spoken = {**KAFKA_2_3}

    def describe(asked: DescribeGroupsRequest) -> DescribeGroupsResponse:
        (group,) = to_classic.groups
        return DescribeGroupsResponse(
            groups=tuple(replace(group, group_id=group_id) for group_id in asked.groups)
        )

    cluster.answers = {DescribeGroupsRequest: describe}
    if to_native is not None:
        (group,) = to_native.groups

        def describe_native(asked: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
            return ConsumerGroupDescribeResponse(
                groups=tuple(replace(group, group_id=group_id) for group_id in asked.group_ids)
            )

        cluster.spoken[ApiKey.CONSUMER_GROUP_DESCRIBE] = (0, 1)
        cluster.answers[ConsumerGroupDescribeRequest] = describe_native
    return cluster


async def test_a_look_distinguishes_native_members_from_classic_ones() -> None:
    """Member ids and instance ids show which are native. If a broker does not say, its members
    count as native."""
    kinds = (MemberType.CLASSIC, MemberType.CONSUMER, MemberType.UNKNOWN)
    (described,) = native("c", "n", "u").groups
    members = tuple(
        replace(member, member_type=kind, instance_id="i" if kind is MemberType.CONSUMER else None)
        for member, kind in zip(described.members, kinds, strict=True)
    )
    answer = ConsumerGroupDescribeResponse(groups=(replace(described, members=members),))
    gone = classic(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    outcome = await ClusterGroupReader(cluster_that_says(gone, answer)).look_up("g")
    assert isinstance(outcome, LiveMembers)
    assert outcome.native_ids == (frozenset({"n-1", "i"}), frozenset({"u-1"}))
    assert not outcome.tells_natives


@pytest.mark.parametrize(
    ("to_native", "takes_natives"),
    [
        (None, False),
        (native(error_code=ErrorCode.UNSUPPORTED_VERSION), False),
        (native(error_code=ErrorCode.GROUP_ID_NOT_FOUND), True),
    ],
)
async def test_a_look_at_an_empty_group_shows_whether_the_cluster_has_the_new_protocol(
    to_native: ConsumerGroupDescribeResponse | None, *, takes_natives: bool
) -> None:
    """A cluster without the new protocol lacks the api, or has the protocol switched off."""
    nobody = await ClusterGroupReader(cluster_that_says(classic(), to_native)).look_up("g")
    assert isinstance(nobody, NoMembers)
    assert nobody.takes_natives is takes_natives


@pytest.mark.parametrize(
    ("to_classic", "to_native", "outcome"),
    [
        (classic(), None, NoMembers()),
        (classic(error_code=ErrorCode.GROUP_ID_NOT_FOUND), None, NoMembers()),
        (classic(), native(), NoMembers()),
        (classic(), native(error_code=ErrorCode.UNSUPPORTED_VERSION), NoMembers()),
        (
            classic("c"),
            native(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
            LiveMembers("consumer", ("c",)),
        ),
        (classic("c", protocol_type=""), None, LiveMembers("", ("c",))),
        (
            classic(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
            native("n", "m"),
            LiveMembers("consumer", ("n", "m")),
        ),
        (classic("c", protocol="range"), None, LiveMembers("consumer", ("c",), "range")),
        (classic("w", protocol_type="connect"), None, LiveMembers("connect", ("w",))),
    ],
)
async def test_a_look_finds_the_members_of_a_group(
    to_classic: DescribeGroupsResponse,
    to_native: ConsumerGroupDescribeResponse | None,
    outcome: LookupOutcome,
) -> None:
    """The group may be of either protocol: DescribeGroups shows a live group of the new protocol as
    Dead."""
    assert (
        await ClusterGroupReader(cluster_that_says(to_classic, to_native)).look_up("g") == outcome
    )


@pytest.mark.parametrize(
    ("to_classic", "to_native", "reason"),
    [
        (
            classic(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
            None,
            "DescribeGroups failed with COORDINATOR_LOAD_IN_PROGRESS",
        ),
        (
            classic(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
            native(),
            "DescribeGroups is not allowed: grant the gateway's user READ and DESCRIBE on it",
        ),
        (
            classic(),
            native(error_code=ErrorCode.NOT_COORDINATOR),
            "ConsumerGroupDescribe failed with NOT_COORDINATOR",
        ),
    ],
)
async def test_a_refused_question_is_no_empty_group(
    to_classic: DescribeGroupsResponse,
    to_native: ConsumerGroupDescribeResponse | None,
    reason: str,
) -> None:
    """The group may have members."""
    outcome = await ClusterGroupReader(cluster_that_says(to_classic, to_native)).look_up("g")
    assert isinstance(outcome, LookupFailed)
    assert outcome.reason == reason


@pytest.mark.parametrize(
    ("kind", "state", "outcome"),
    [
        ("Share", "Stable", OtherGroupType("share")),
        ("streams", "Reconciling", OtherGroupType("streams")),
        ("Streams", "Empty", NoMembers()),
        ("Streams", "Dead", NoMembers()),
    ],
)
async def test_a_look_finds_groups_of_other_kinds(
    kind: str, state: str, outcome: LookupOutcome
) -> None:
    """Scenario 35: they share the namespace, but neither description shows them. The group is then
    occupied (test_group_routing.py, test_answers.py)."""
    cluster = cluster_that_says(
        classic(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
        native(error_code=ErrorCode.GROUP_ID_NOT_FOUND),
    )
    cluster.spoken[ApiKey.LIST_GROUPS] = (0, 5)
    cluster.answers[ListGroupsRequest] = lambda _: ListGroupsResponse(
        groups=(
            ListedGroup(group_id="other", protocol_type="", group_state="Stable", group_type=kind),
            ListedGroup(group_id="g", protocol_type="", group_state=state, group_type=kind),
        )
    )
    assert await ClusterGroupReader(cluster).look_up("g") == outcome


async def test_a_cluster_that_does_not_list_groups_is_not_empty() -> None:
    """The cluster may have a group of another kind."""
    cluster = cluster_that_says(classic(), native())
    cluster.spoken[ApiKey.LIST_GROUPS] = (0, 5)
    cluster.answers[ListGroupsRequest] = lambda _: ListGroupsResponse(
        error_code=ErrorCode.NOT_COORDINATOR
    )
    assert isinstance(await ClusterGroupReader(cluster).look_up("g"), LookupFailed)


async def test_an_unreachable_cluster_is_not_an_empty_group() -> None:
    """The reason is for operators."""
    cluster = cluster_that_says(classic())
    cluster.failure = UpstreamError("nobody listens")
    assert await ClusterGroupReader(cluster).look_up("g") == LookupFailed("nobody listens")


async def test_many_groups_need_few_look_ups() -> None:
    """Each coordinator receives one request for all its groups."""
    cluster = cluster_that_says(classic(), native(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    cluster.spoken[ApiKey.LIST_GROUPS] = (0, 5)
    cluster.answers[ListGroupsRequest] = lambda _: ListGroupsResponse()
    names = [f"g{number}" for number in range(GROUPS_PER_LOOKUP_MAX)]
    cluster.coordinators = dict.fromkeys(names[::2], 2)
    assert await ClusterGroupReader(cluster).look_up_all(names) == dict.fromkeys(names, NoMembers())
    assert Counter((node, type(asked)) for node, asked in cluster.asked) == {
        (node, kind): 1
        for node in (1, 2)
        for kind in (DescribeGroupsRequest, ConsumerGroupDescribeRequest, ListGroupsRequest)
    }


async def test_no_question_is_about_too_many_groups() -> None:
    """The answer grows with their members."""
    cluster = cluster_that_says(classic())
    names = [f"g{number}" for number in range(GROUPS_PER_LOOKUP_MAX + 1)]
    await ClusterGroupReader(cluster).look_up_all(names)
    sizes = [len(asked.groups) for _, asked in cluster.asked]  # type: ignore[attr-defined]
    assert sizes == [GROUPS_PER_LOOKUP_MAX, 1]


async def test_each_of_many_groups_has_its_own_answer() -> None:
    """A group without an answer is unknown, and no other is."""
    cluster = cluster_that_says(classic(), native(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    (free,), (taken,) = classic().groups, classic("payments").groups
    (foreign,) = classic("w", protocol_type="connect").groups
    cluster.answers[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(
        groups=(
            replace(free, group_id="free"),
            replace(taken, group_id="taken"),
            replace(foreign, group_id="foreign"),
            replace(free, group_id="loading", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )
    )
    outcomes = await ClusterGroupReader(cluster).look_up_all(
        ["free", "taken", "foreign", "loading", "left-out"]
    )
    assert {group_id: type(outcome) for group_id, outcome in outcomes.items()} == {
        "free": NoMembers,
        "taken": LiveMembers,
        "foreign": LiveMembers,
        "loading": LookupFailed,
        "left-out": LookupFailed,
    }


async def test_a_cluster_without_descriptions_is_the_embedded_one() -> None:
    """Every Kafka since 0.9 describes groups. The embedded cluster has no other clients."""
    assert await ClusterGroupReader(ScriptedCluster()).look_up("g") == NoMembers()


@pytest.mark.parametrize(
    ("key", "versions"),
    [(ApiKey.JOIN_GROUP, (0, 4)), (ApiKey.OFFSET_COMMIT, (0, 6)), (ApiKey.HEARTBEAT, (0, 2))],
)
async def test_a_cluster_without_static_members_is_too_old(
    key: ApiKey, versions: tuple[int, int]
) -> None:
    """Before Kafka 2.3 the coordinator fences no earlier incarnation."""
    cluster = cluster_that_says(classic())
    cluster.spoken[key] = versions
    assert await ClusterGroupReader(cluster).look_up("g") == BrokerTooOld()


async def test_a_look_describes_the_anchors_of_a_group() -> None:
    """The description says whose they are."""
    described = classic("groupferry", protocol_type="groupferry", protocol="log-1")
    outcome = await ClusterGroupReader(cluster_that_says(described)).look_up("g")
    (group,) = described.groups
    assert outcome == LiveMembers("groupferry", ("groupferry",), "log-1", group)


async def test_a_group_without_offsets_leaves_no_trace() -> None:
    """A group with offsets is Empty. Of one whose coordinator does not answer nothing is known."""
    cluster = cluster_that_says(classic())
    (group,) = classic().groups
    cluster.answers[DescribeGroupsRequest] = lambda _: DescribeGroupsResponse(
        groups=(
            replace(group, group_id="dead", group_state="Dead"),
            replace(
                group,
                group_id="unknown",
                group_state="Dead",
                error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            ),
            replace(group, group_id="empty", group_state="Empty"),
            replace(
                group, group_id="loading", group_state="Dead", error_code=ErrorCode.NOT_COORDINATOR
            ),
        )
    )
    looking = ClusterGroupReader(cluster)
    names = ("dead", "unknown", "empty", "loading")
    traces = await looking.find_traces(names)
    assert traces == {"dead": False, "unknown": False, "empty": True}
    cluster.failure = UpstreamError("nobody listens")
    assert await looking.find_traces(names) == {}
