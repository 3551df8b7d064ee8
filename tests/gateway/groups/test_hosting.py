"""Whom a group belongs to, decided from what the cluster says; against real brokers see
test_hosting_with_kafka.py."""

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
    """What DescribeGroups answers."""
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
    """What ConsumerGroupDescribe answers."""
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
    """A cluster with these answers about any group; with the new protocol if there is one for
    it."""
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
    """What is tested, in front of that cluster; these are forwarded."""
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
async def test_who_answers_for_a_group(
    to_classic: DescribeGroupsResponse,
    to_native: ConsumerGroupDescribeResponse | None,
    mode: Mode,
) -> None:
    """Somebody there: theirs. Nobody: ours. Not known: nobody's for now."""
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
    """Scenario 35: a JoinGroup there is refused with INCONSISTENT_GROUP_PROTOCOL, a heartbeat with
    GROUP_ID_NOT_FOUND. To the other questions such a group looks like none."""
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


async def test_a_cluster_that_does_not_list_its_groups_is_not_an_empty_one() -> None:
    """Whether a group of another kind is there is then unknown."""
    cluster = cluster_that_says(classic(), native())
    cluster.spoken[ApiKey.LIST_GROUPS] = (0, 5)
    cluster.answers[ListGroupsRequest] = lambda _: ListGroupsResponse(
        error_code=ErrorCode.NOT_COORDINATOR
    )
    with capture_logs():
        assert (await looking(cluster).look("g")).mode is Mode.UNKNOWN


async def test_a_cluster_that_cannot_be_asked_is_not_an_empty_group() -> None:
    """Said in one log line, until the reason changes."""
    cluster = cluster_that_says(classic())
    cluster.failure = UpstreamError("nobody listens")
    hosting = looking(cluster)
    with capture_logs() as lines:
        for _ in range(3):
            verdict = await hosting.look("g")
            assert verdict.mode is Mode.UNKNOWN
            assert "nobody listens" not in verdict.why  # clients are told, so no address is in it
        cluster.failure = UpstreamError("it is on fire")
        await hosting.look("g")
    assert [line["event"] for line in lines] == ["group_state_unknown", "group_state_unknown"]
    assert [line["reason"].rpartition(": ")[2] for line in lines] == [
        "nobody listens",
        "it is on fire",
    ]


async def test_the_log_says_who_is_there_and_what_to_do_once_per_reason() -> None:
    """And again when somebody else is there, or when they came back."""
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


async def test_a_free_group_is_not_asked_about_again_so_soon(autojump_clock: MockClock) -> None:
    """Unless somebody is to be let in: who came meanwhile must not be overlooked."""
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


async def test_many_groups_are_looked_at_in_a_few_questions() -> None:
    """Each of their coordinators is asked about all of its groups at once, and nobody about those
    that were found free a moment ago."""
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


async def test_of_many_groups_each_has_its_own_verdict() -> None:
    """One that the broker does not answer for is unknown, and no other is."""
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


async def test_a_cluster_that_can_tell_nothing_is_the_embedded_one() -> None:
    """Every Kafka since 0.9 describes groups; in the embedded one nobody else is."""
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
async def test_patterns_name_groups_that_are_never_looked_at(
    pattern: str, group_id: str, *, is_forwarded: bool
) -> None:
    """Upper and lower case count, as they do in group ids."""
    cluster = ScriptedCluster()
    hosting = looking(cluster, pattern)
    assert hosting.is_forwarded(group_id) is is_forwarded
    await hosting.look(group_id)
    assert bool(cluster.coordinator_questions) is not is_forwarded


async def test_forwarding_is_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line per group; the oldest of too many is looked at again."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 2)
    hosting = looking(ScriptedCluster())
    with capture_logs() as lines:
        for group_id in ("a", "a", "b", "c"):
            hosting.forward(group_id, "its protocol type is connect")
    assert [line["group_id"] for line in lines] == ["a", "b", "c"]
    assert [hosting.is_forwarded(each) for each in ("a", "b", "c")] == [False, True, True]


async def test_a_group_is_forwarded_for_as_long_as_somebody_is_in_it(
    autojump_clock: MockClock,
) -> None:
    """One JoinGroup of another protocol must not take a group away for good: the cluster is asked
    again before anybody is let in, and after a while by every request."""
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


async def test_reports_are_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any client can make up group ids."""
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
    """What DescribeGroups answers about a group that a gateway holds."""
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
async def test_an_anchor_says_whose_the_group_is(
    found: DescribeGroupsResponse, usually: Mode, after_a_replacement: Mode
) -> None:
    """With our state log it is ours, or a predecessor's, whose place we take; unless it has taken
    ours. The name of another log says so by itself."""
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
async def test_an_anchor_that_was_left_behind_is_seen(
    found: DescribeGroupsResponse, *, is_left_behind: bool, is_ours: bool
) -> None:
    """Whoever asks has none here: it is a predecessor's, or could not leave. Once it has gone,
    nobody trusts an older look."""
    cluster = cluster_that_says(found)
    hosting = looking(cluster)
    with capture_logs():
        assert await hosting.is_left_behind("g") is is_left_behind
        assert hosting.is_ours(found.groups[0]) is is_ours
        cluster.answers[DescribeGroupsRequest] = lambda _: classic()
        assert not await hosting.is_left_behind("g")


async def test_members_that_only_a_lost_log_knows_are_waited_for(
    autojump_clock: MockClock,
) -> None:
    """An anchor with another log has gone: what its gateway granted may still be believed in, for
    the longest session that there can be."""
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


async def test_another_gateway_is_named_once_as_an_error() -> None:
    """Where it is, and which log it has."""
    hosting = looking(cluster_that_says(OTHER_LOGS))
    with capture_logs() as lines:
        for _ in range(3):
            await hosting.look("g")
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("group_hosted_elsewhere", "error")
    assert "groupferry at /10.0.0.7" in line["reason"]
    assert "log-2" in line["reason"]


async def test_whoever_replaced_us_has_the_group_until_it_is_free(
    autojump_clock: MockClock,
) -> None:
    """And nobody can be left who was in it there. From then on an anchor with our log is a
    predecessor's again."""
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
async def test_a_cluster_that_cannot_hold_an_anchor_keeps_its_groups(
    key: ApiKey, versions: tuple[int, int]
) -> None:
    """Before Kafka 2.3 nothing fences a member's predecessor."""
    cluster = cluster_that_says(classic())
    cluster.spoken[key] = versions
    hosting = looking(cluster)
    with capture_logs() as lines:
        assert (await hosting.look("g")).mode is Mode.FORWARDED
    assert "older than Kafka 2.3" in lines[0]["reason"]
