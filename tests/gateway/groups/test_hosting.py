"""The holder of a group, decided from the cluster's answers. test_hosting_with_kafka.py tests it
with real brokers."""

from collections import Counter
from dataclasses import replace

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from gateway.anchor.identity import Gateway
from gateway.cluster.errors import UpstreamError
from gateway.groups import hosting as module
from gateway.groups.hosting import (
    FORWARDED_FOR_S,
    FOUND_FREE_FOR_S,
    LOOKED_AT_ONCE_MAX,
    Hosting,
    Mode,
)
from kafka_codecs import consumer_group_describe, describe_groups
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tests.support.hosted_groups import ScriptedCluster

OURS = Gateway(log_id="log-1", run_id="run-1")
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
            groups=tuple(replace(group, group_id=each) for each in asked.groups)
        )

    cluster.answers = {DescribeGroupsRequest: describe}
    if to_native is not None:
        (group,) = to_native.groups

        def describe_native(asked: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
            return ConsumerGroupDescribeResponse(
                groups=tuple(replace(group, group_id=each) for each in asked.group_ids)
            )

        cluster.spoken[ApiKey.CONSUMER_GROUP_DESCRIBE] = (0, 1)
        cluster.answers[ConsumerGroupDescribeRequest] = describe_native
    return cluster


def looking(cluster: ScriptedCluster, *patterns: str) -> Hosting:
    """The hosting decision in front of that cluster, with these groups forwarded."""
    return Hosting(cluster, patterns, OURS, longest_session_ms=60_000)


@pytest.mark.parametrize(
    ("to_classic", "to_native", "mode"),
    [
        (classic(), None, Mode.HOSTED),
        (classic(error_code=ErrorCode.GROUP_ID_NOT_FOUND), None, Mode.HOSTED),
        (classic(), native(), Mode.HOSTED),
        (classic(), native(error_code=ErrorCode.GROUP_ID_NOT_FOUND), Mode.HOSTED),
        (classic(), native(error_code=ErrorCode.UNSUPPORTED_VERSION), Mode.HOSTED),
        (classic("c"), None, Mode.OCCUPIED),
        (classic("c"), native(error_code=ErrorCode.GROUP_ID_NOT_FOUND), Mode.OCCUPIED),
        (classic("c", protocol_type=""), None, Mode.OCCUPIED),
        (classic(error_code=ErrorCode.GROUP_ID_NOT_FOUND), native("n"), Mode.OCCUPIED),
        (classic("c", protocol="range"), None, Mode.OCCUPIED),
        (classic("w", protocol_type="connect"), None, Mode.FORWARDED),
        (classic("s", protocol="stream"), None, Mode.FORWARDED),
        (classic(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), None, Mode.UNKNOWN),
        (classic(error_code=ErrorCode.NOT_COORDINATOR), native(), Mode.UNKNOWN),
        (classic(), native(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), Mode.UNKNOWN),
    ],
)
async def test_members_in_the_cluster_decide_who_holds_a_group(
    to_classic: DescribeGroupsResponse,
    to_native: ConsumerGroupDescribeResponse | None,
    mode: Mode,
) -> None:
    """With members in the cluster it is the cluster's, without them the gateway's. While that is
    unknown, no one answers for the group."""
    hosting = looking(cluster_that_says(to_classic, to_native))
    with capture_logs():
        assert (await hosting.look("g")).mode is mode


@pytest.mark.parametrize(
    ("kind", "state", "mode"),
    [
        ("Share", "Stable", Mode.OCCUPIED),
        ("streams", "Reconciling", Mode.OCCUPIED),
        ("Streams", "Empty", Mode.HOSTED),
    ],
)
async def test_a_group_of_another_kind_is_not_hosted(kind: str, state: str, mode: Mode) -> None:
    """Scenario 35: the group refuses JoinGroup with INCONSISTENT_GROUP_PROTOCOL and a native
    heartbeat with GROUP_ID_NOT_FOUND. Other requests see no group."""
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
    with capture_logs():
        verdict = await looking(cluster).look("g")
    assert verdict.mode is mode
    assert (f"a {kind.lower()} group" in verdict.why) is (mode is Mode.OCCUPIED)


async def test_a_cluster_that_does_not_list_groups_is_not_empty() -> None:
    """It may have a group of another kind."""
    cluster = cluster_that_says(classic(), native())
    cluster.spoken[ApiKey.LIST_GROUPS] = (0, 5)
    cluster.answers[ListGroupsRequest] = lambda _: ListGroupsResponse(
        error_code=ErrorCode.NOT_COORDINATOR
    )
    with capture_logs():
        assert (await looking(cluster).look("g")).mode is Mode.UNKNOWN


async def test_an_unreachable_cluster_is_not_an_empty_group() -> None:
    """One log line reports it, until the reason changes."""
    cluster = cluster_that_says(classic())
    cluster.failure = UpstreamError("nobody listens")
    hosting = looking(cluster)
    with capture_logs() as lines:
        for _ in range(3):
            verdict = await hosting.look("g")
            assert verdict.mode is Mode.UNKNOWN
            assert "nobody listens" not in verdict.why  # no address, because clients receive it
        cluster.failure = UpstreamError("it is on fire")
        await hosting.look("g")
    assert [line["event"] for line in lines] == ["group_state_unknown", "group_state_unknown"]
    assert [line["reason"].rpartition(": ")[2] for line in lines] == [
        "nobody listens",
        "it is on fire",
    ]


async def test_the_log_reports_direct_members_once_per_reason() -> None:
    """It reports again when other members join, or when they return."""
    cluster = cluster_that_says(classic("payments", "payments", "audit"))
    hosting = looking(cluster)
    with capture_logs() as lines:
        for _ in range(3):
            await hosting.look("g")
        (line,) = lines
        assert line["event"] == "group_occupied"
        assert line["log_level"] == "warning"
        assert "3 members (audit, payments)" in line["reason"]
        assert "point them at the gateway" in line["reason"]
        cluster.answers[DescribeGroupsRequest] = lambda _: classic()
        assert (await hosting.look("g")).mode is Mode.HOSTED
        cluster.answers[DescribeGroupsRequest] = lambda _: classic("payments", "payments", "audit")
        await hosting.look("g")
    assert len(lines) == 2


async def test_a_free_group_is_not_looked_up_again_at_once(autojump_clock: MockClock) -> None:
    """Before a join it is, because direct members may have joined meanwhile."""
    cluster = cluster_that_says(classic())
    hosting = looking(cluster)
    assert (await hosting.look_lately("g")).mode is Mode.HOSTED
    cluster.answers[DescribeGroupsRequest] = lambda _: classic("payments")
    assert (await hosting.look_lately("g")).mode is Mode.HOSTED
    with capture_logs():
        assert (await hosting.look("g")).mode is Mode.OCCUPIED
        assert (await hosting.look_lately("g")).mode is Mode.OCCUPIED
    cluster.answers[DescribeGroupsRequest] = lambda _: classic()
    assert (await hosting.look_lately("g")).mode is Mode.HOSTED
    cluster.answers[DescribeGroupsRequest] = lambda _: classic("payments")
    await trio.sleep(FOUND_FREE_FOR_S)
    with capture_logs():
        assert (await hosting.look_lately("g")).mode is Mode.OCCUPIED


async def test_many_groups_need_few_look_ups() -> None:
    """Each coordinator receives one request for all its groups, without those that were free a
    moment ago."""
    cluster = cluster_that_says(classic(), native(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
    cluster.spoken[ApiKey.LIST_GROUPS] = (0, 5)
    cluster.answers[ListGroupsRequest] = lambda _: ListGroupsResponse()
    names = [f"g{number}" for number in range(LOOKED_AT_ONCE_MAX)]
    cluster.coordinators = dict.fromkeys(names[::2], 2)
    hosting = looking(cluster)
    verdicts = await hosting.look_at_lately(names)
    assert {each.mode for each in verdicts.values()} == {Mode.HOSTED}
    assert set(verdicts) == set(names)
    assert Counter((node, type(asked)) for node, asked in cluster.asked) == {
        (node, kind): 1
        for node in (1, 2)
        for kind in (DescribeGroupsRequest, ConsumerGroupDescribeRequest, ListGroupsRequest)
    }
    await hosting.look_at_lately([*names, "new"])
    assert cluster.coordinator_questions[len(names) :] == ["new"]


async def test_each_of_many_groups_has_its_own_verdict() -> None:
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
    hosting = looking(cluster, "legacy")
    with capture_logs():
        verdicts = await hosting.look_at(
            ["legacy", "free", "taken", "foreign", "loading", "left-out"]
        )
    assert {group_id: verdict.mode for group_id, verdict in verdicts.items()} == {
        "legacy": Mode.FORWARDED,
        "free": Mode.HOSTED,
        "taken": Mode.OCCUPIED,
        "foreign": Mode.FORWARDED,
        "loading": Mode.UNKNOWN,
        "left-out": Mode.UNKNOWN,
    }


async def test_a_cluster_without_descriptions_is_the_embedded_one() -> None:
    """Every Kafka since 0.9 describes groups. The embedded cluster has no other clients."""
    assert (await looking(ScriptedCluster()).look("g")).mode is Mode.HOSTED


@pytest.mark.parametrize(
    ("pattern", "group_id", "is_forwarded"),
    [
        ("legacy-*", "legacy-orders", True),
        ("legacy-*", "legacy", False),
        ("v?", "v1", True),
        ("v?", "V1", False),
        ("*", "anything", True),
        ("orders", "orders", True),
    ],
)
async def test_groups_that_match_a_pattern_are_never_looked_up(
    pattern: str, group_id: str, *, is_forwarded: bool
) -> None:
    """Patterns are case-sensitive, like group ids."""
    cluster = ScriptedCluster()
    hosting = looking(cluster, pattern)
    assert hosting.is_forwarded(group_id) is is_forwarded
    await hosting.look(group_id)
    assert bool(cluster.coordinator_questions) is not is_forwarded


async def test_a_limited_number_of_forwarded_groups_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has one line per group. The oldest group beyond the limit is looked up again."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 2)
    hosting = looking(ScriptedCluster())
    with capture_logs() as lines:
        for group_id in ("a", "a", "b", "c"):
            hosting.forward(group_id, "its protocol type is connect")
    assert [line["group_id"] for line in lines] == ["a", "b", "c"]
    assert [hosting.is_forwarded(each) for each in ("a", "b", "c")] == [False, True, True]


async def test_a_group_is_forwarded_while_it_has_members(
    autojump_clock: MockClock,
) -> None:
    """One JoinGroup of another protocol must not take a group for good. The cluster is asked again
    before a join, and after a while for every request."""
    workers = cluster_that_says(classic("w", protocol_type="connect")).answers
    cluster = cluster_that_says(classic())
    hosting = looking(cluster)
    with capture_logs() as lines:
        hosting.forward("g", "it uses the protocol connect/v1")
        cluster.answers = workers
        assert (await hosting.look("g")).mode is Mode.FORWARDED
        cluster.answers = cluster_that_says(classic()).answers
        assert (await hosting.look_lately("g")).mode is Mode.FORWARDED
        await trio.sleep(FORWARDED_FOR_S)
        cluster.failure = UpstreamError("nobody listens")
        assert (await hosting.look_lately("g")).mode is Mode.FORWARDED
        cluster.failure = None
        assert (await hosting.look_lately("g")).mode is Mode.HOSTED
        assert not hosting.is_forwarded("g")
        hosting.forward("g", "it uses the protocol connect/v1")
        assert (await hosting.look("g")).mode is Mode.HOSTED
    assert [line["event"] for line in lines] == ["group_forwarded"] * 2


async def test_a_limited_number_of_reports_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients can invent group ids."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 2)
    hosting = Hosting(cluster_that_says(classic("c")), (), OURS, longest_session_ms=60_000)
    with capture_logs() as lines:
        for group_id in ("a", "b", "c", "c", "a"):
            await hosting.look(group_id)
    assert [line["group_id"] for line in lines] == ["a", "b", "c", "a"]


# -- anchors -------------------------------------------------------------------------------------


def anchored(
    log_id: str, run_id: str, *, others: tuple[str, ...] = (), is_stable: bool = True
) -> DescribeGroupsResponse:
    """An answer of DescribeGroups about a group with an anchor."""
    members = tuple(
        describe_groups.DescribedGroupMember(
            member_id=f"groupferry-{each}",
            group_instance_id="groupferry",
            client_id="groupferry",
            client_host="/10.0.0.7",
            member_metadata=each.encode() if is_stable else b"",
            member_assignment=b"",
        )
        for each in (run_id, *others)
    )
    group = describe_groups.DescribedGroup(
        group_id="g",
        group_state="Stable" if is_stable else "PreparingRebalance",
        protocol_type="groupferry",
        protocol_data=log_id if is_stable else "",
        members=members,
    )
    return DescribeGroupsResponse(groups=(group,))


OWN = anchored("log-1", "run-1")
PREDECESSORS = anchored("log-1", "run-0")
OTHER_LOGS = anchored("log-2", "run-2")
REJOINING = anchored("log-1", "run-0", is_stable=False)


@pytest.mark.parametrize(
    ("found", "usually", "after_a_replacement"),
    [
        (OWN, Mode.HOSTED, Mode.HOSTED),
        (PREDECESSORS, Mode.HOSTED, Mode.ELSEWHERE),
        (REJOINING, Mode.HOSTED, Mode.UNKNOWN),
        (OTHER_LOGS, Mode.ELSEWHERE, Mode.ELSEWHERE),
        (anchored("log-1", "run-1", others=("run-2",)), Mode.ELSEWHERE, Mode.ELSEWHERE),
        (classic(), Mode.HOSTED, Mode.HOSTED),
    ],
)
async def test_an_anchor_names_the_holder_of_its_group(
    found: DescribeGroupsResponse, usually: Mode, after_a_replacement: Mode
) -> None:
    """An anchor with this gateway's log belongs to it or its predecessor, unless it replaced the
    gateway's own. An anchor with another log names that log."""
    hosting = looking(cluster_that_says(found))
    with capture_logs():
        assert (await hosting.look("g")).mode is usually
        hosting.note_replaced("g")
        assert (await hosting.look("g")).mode is after_a_replacement


@pytest.mark.parametrize(
    ("found", "is_left_behind", "is_ours"),
    [
        (OWN, True, True),
        (PREDECESSORS, True, True),
        (REJOINING, True, False),
        (OTHER_LOGS, False, False),
        (classic("c"), False, False),
        (classic(), False, False),
    ],
)
async def test_a_leftover_anchor_is_recognised(
    found: DescribeGroupsResponse, *, is_left_behind: bool, is_ours: bool
) -> None:
    """The gateway has no anchor, so it is a predecessor's, or one that could not leave. After it
    leaves, earlier look-ups are not trusted."""
    cluster = cluster_that_says(found)
    hosting = looking(cluster)
    with capture_logs():
        assert await hosting.is_left_behind("g") is is_left_behind
        assert hosting.is_ours(found.groups[0]) is is_ours
        cluster.answers[DescribeGroupsRequest] = lambda _: classic()
        assert not await hosting.is_left_behind("g")


async def test_members_of_a_lost_log_are_waited_for(
    autojump_clock: MockClock,
) -> None:
    """An anchor with another log has gone. Its gateway's members may still consume for the longest
    possible session."""
    cluster = cluster_that_says(OTHER_LOGS)
    hosting = looking(cluster)
    with capture_logs() as lines:
        assert (await hosting.look("g")).mode is Mode.ELSEWHERE
        cluster.answers = cluster_that_says(classic()).answers
        await trio.sleep(59)
        assert (await hosting.look("g")).mode is Mode.UNKNOWN
        assert (await hosting.look_lately("g")).mode is Mode.UNKNOWN
        assert (await hosting.look("other")).mode is Mode.HOSTED
        await trio.sleep(1)
        assert (await hosting.look("g")).mode is Mode.HOSTED
    assert [line["event"] for line in lines] == [
        "group_hosted_elsewhere",
        "group_waits_for_sessions",
    ]


async def test_another_gateway_is_reported_once_as_an_error() -> None:
    """The report has its address and its log."""
    hosting = looking(cluster_that_says(OTHER_LOGS))
    with capture_logs() as lines:
        for _ in range(3):
            await hosting.look("g")
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("group_hosted_elsewhere", "error")
    assert "groupferry at /10.0.0.7" in line["reason"]
    assert "log-2" in line["reason"]


async def test_a_gateway_that_replaced_the_anchor_holds_the_group_until_it_is_free(
    autojump_clock: MockClock,
) -> None:
    """Its members must have left as well. From then on an anchor with this log is a predecessor's
    again."""
    cluster = cluster_that_says(PREDECESSORS)
    hosting = looking(cluster)
    hosting.note_replaced("g")
    with capture_logs():
        assert (await hosting.look("g")).mode is Mode.ELSEWHERE
        cluster.answers[DescribeGroupsRequest] = lambda _: classic()
        await trio.sleep(60)
        assert (await hosting.look("g")).mode is Mode.HOSTED
        cluster.answers[DescribeGroupsRequest] = lambda _: PREDECESSORS
        assert (await hosting.look("g")).mode is Mode.HOSTED


@pytest.mark.parametrize(
    ("key", "versions"),
    [(ApiKey.JOIN_GROUP, (0, 4)), (ApiKey.OFFSET_COMMIT, (0, 6)), (ApiKey.HEARTBEAT, (0, 2))],
)
async def test_a_cluster_without_static_members_keeps_its_groups(
    key: ApiKey, versions: tuple[int, int]
) -> None:
    """Before Kafka 2.3 the coordinator fences no earlier incarnation."""
    cluster = cluster_that_says(classic())
    cluster.spoken[key] = versions
    hosting = looking(cluster)
    with capture_logs() as lines:
        assert (await hosting.look("g")).mode is Mode.FORWARDED
    assert "older than Kafka 2.3" in lines[0]["reason"]
