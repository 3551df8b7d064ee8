"""The groups in memory, their limits, and answers for other groups."""

from collections.abc import Sequence

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.events import OffsetCommitEnded
from coordinator.interface.records import (
    Adoption,
    ClassicGroupMetadata,
    ClassicGroupValue,
    DurableRecord,
    GroupAdoption,
    GroupConfigs,
    GroupRelease,
    Release,
    ServedBySetting,
)
from coordinator.interface.replies import OffsetVerdict
from coordinator.interface.roll_policy import NATIVE_MEMBERS_MAX, RollMode
from gateway.batches import NAMES_PER_STEP
from gateway.cluster.errors import UpstreamError
from gateway.groups import groups as module
from gateway.groups.group_driver import GroupDriver
from gateway.groups.groups import RESUME_RETRY_S, GroupRefused
from gateway.hosting.adoption_steps import Treatment
from gateway.hosting.calls import Call, Commit
from gateway.hosting.group import HostedGroup
from gateway.hosting.inputs import SeenForeign
from gateway.hosting.logged_engine import STALLED_AFTER_MS, LoggedEngine
from gateway.hosting.states import Mode
from gateway.quotas.owner import Owner
from gateway.state_log.log import StateLogError, StateLogUnreadable
from kafka_codecs import describe_groups
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    MemberType,
)
from kafka_codecs.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kafka_codecs.error_codes import ErrorCode
from tests.support.garbage import freed_at_once
from tests.support.hosted_groups import GROUP, QUIET_S, HostedGroups, ScriptedLog, hosted_groups

KAFKA_2_3: dict[int, tuple[int, int]] = dict.fromkeys(
    (
        *(ApiKey.DESCRIBE_GROUPS, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT),
        *(ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT),
    ),
    (0, 7),
)
"""A broker that can hold anchors."""


async def test_the_number_of_groups_is_limited(autojump_clock: MockClock) -> None:
    """Existing groups continue. A group that ends makes room for another."""
    async with hosted_groups(max_groups=2) as groups:
        joined = await groups.native("n", group="a")
        await groups.native("n", group="b")
        with pytest.raises(GroupRefused, match="the limit of 2 hosted groups is reached"):
            await groups.native("n", group="c")
        beaten = await groups.native("n", joined.member_epoch, group="a")
        assert beaten.error is ErrorCode.NONE
        await groups.native("n", -1, group="b")
        await trio.sleep(2)
        assert (await groups.native("n", group="c")).error is ErrorCode.NONE


async def test_a_group_that_has_ended_needs_no_garbage_collection(
    autojump_clock: MockClock,
) -> None:
    """Nor do the calls of its members: a client may begin and leave any number of groups."""
    with freed_at_once(GroupDriver, HostedGroup, Call, Commit):
        async with hosted_groups() as groups:
            token, _ = await _consume(groups)
            groups.end_commit(OffsetCommitEnded(commit=token))
            await groups.native("n", -1)
            await trio.sleep(QUIET_S)
            assert not groups.running


async def _consume(groups: HostedGroups) -> tuple[int, OffsetVerdict]:
    """A member joins, sends a heartbeat, is refused once, and commits."""
    joined = await groups.native("n")
    await groups.native("n", joined.member_epoch)
    await groups.native("n", 99)
    return await groups.commit("n", joined.member_epoch, {"foo": [0]})


async def test_one_address_leaves_room_for_others(autojump_clock: MockClock) -> None:
    """A group counts for the address that began it, wherever its members are, and for none if it
    existed before the gateway. The log reports it once."""
    async with hosted_groups(max_groups=8, max_groups_per_address=2) as groups:
        await groups.native("n", group="resumed")
        await groups.native("n", group="a", begun_by="greedy")
        await groups.native("n", group="b", begun_by="greedy")
        with capture_logs() as lines:
            for group in ("c", "d", "e"):
                with pytest.raises(
                    GroupRefused, match="the limit of 2 hosted groups per client address"
                ):
                    await groups.native("n", group=group, begun_by="greedy")
        assert {line["event"] for line in lines} >= {"groups_refused"}
        await groups.native("n", group="c", begun_by="modest")
        for group in ("resumed", "a", "c"):
            assert not (await groups.native("m", group=group, begun_by="greedy")).error
        await groups.native("n", -1, group="a")
        await groups.native("m", -1, group="a")
        await trio.sleep(2)
        assert not (await groups.native("n", group="d", begun_by="greedy")).error


async def test_groups_with_only_joins_make_room(
    autojump_clock: MockClock,
) -> None:
    """A client that joins many groups with the longest sessions, and never continues, blocks no
    other, with its members or with unused ids."""
    half_an_hour_ms = 1_800_000
    async with hosted_groups(max_groups=3) as groups:
        served = await groups.join(group="served", version=3, session_timeout_ms=half_an_hour_ms)
        await groups.sync(served.member_id, served.generation, group="served")
        await groups.join(group="joined", version=3, session_timeout_ms=half_an_hour_ms)
        await groups.join(group="handed-out", session_timeout_ms=half_an_hour_ms)
        with pytest.raises(GroupRefused):
            await groups.native("n", group="late")
        await trio.sleep(STALLED_AFTER_MS / 1000)
        with capture_logs() as lines:
            with pytest.raises(GroupRefused):
                await groups.native("n", group="late")
            await trio.sleep(1)
        assert list(groups.running) == ["served"]
        dissolved = {line["group_id"] for line in lines if line["event"] == "group_dissolved"}
        assert dissolved == {"joined", "handed-out"}
        assert (await groups.native("n", group="late")).error is ErrorCode.NONE
        beaten = await groups.beat(served.member_id, served.generation, group="served")
        assert beaten.error is ErrorCode.NONE


async def test_the_search_for_room_is_rate_limited(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many joins are refused, all groups are scanned at most once per second."""
    looks = 0

    def has_stalled(_work: LoggedEngine, _now_ms: int) -> bool:
        nonlocal looks
        looks += 1
        return False

    monkeypatch.setattr(LoggedEngine, "has_stalled", has_stalled)
    async with hosted_groups(max_groups=1) as groups:
        await groups.native("n")
        for _ in range(10):
            with pytest.raises(GroupRefused):
                await groups.native("n", group="late")
        assert looks == 2  # one at each group, that which is refused included


async def test_a_group_with_hosted_members_stays_hosted(autojump_clock: MockClock) -> None:
    """The cluster is not even asked."""
    async with hosted_groups() as groups:
        await groups.native("n")
        groups.driver().feed(SeenForeign("somebody said so"))
        groups.cluster.coordinator_questions.clear()
        assert (await groups.table.verdicts((GROUP,)))[GROUP].mode is Mode.HOSTED
        assert groups.table.is_live(GROUP)
        assert groups.cluster.coordinator_questions == []
        await groups.native("n", -1)
        assert not groups.table.is_live(GROUP)
        assert (await groups.table.verdicts((GROUP,)))[GROUP].mode is Mode.FORWARDED


async def test_what_is_known_of_groups_is_kept_from_inventors_of_names(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is not asked again about the group of another user."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 4)
    alice, mallory = Owner("alice", is_principal=True), Owner("mallory", is_principal=True)
    async with hosted_groups() as groups:
        await groups.table.verdicts(["a"], alice)
        await groups.table.verdicts([f"g{number}" for number in range(9)], mallory)
        groups.cluster.coordinator_questions.clear()
        await groups.table.verdicts(["a"], alice)
        assert groups.cluster.coordinator_questions == []
        await groups.table.verdicts(["g0"], mallory)
        assert groups.cluster.coordinator_questions == ["g0"]


async def test_others_run_while_many_names_are_looked_up(autojump_clock: MockClock) -> None:
    """Hundreds of such requests may come together, and a heartbeat waits for a step of each."""
    names = [f"g{number}" for number in range(10 * NAMES_PER_STEP)]
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with hosted_groups() as groups, trio.open_nursery() as nursery:
        nursery.start_soon(count)
        for _ in range(2):  # by a look, and from memory
            turns = 0
            await groups.table.verdicts(names)
            assert turns >= 9
        nursery.cancel_scope.cancel()


async def test_an_unused_id_makes_no_member(autojump_clock: MockClock) -> None:
    """The second JoinGroup looks at the cluster again."""
    async with hosted_groups() as groups:
        await groups.join()
        assert not groups.table.is_live(GROUP)


async def test_a_group_outside_memory_is_seen_from_its_log(
    autojump_clock: MockClock,
) -> None:
    """An empty group exists, but a group without a log does not."""
    async with hosted_groups() as groups:
        await groups.native("n")
        await groups.native("n", -1)
        await trio.sleep(2)
        assert groups.running == ()
        view = await groups.table.view(GROUP)
        assert view is not None
        assert (view[0].group_type, view[0].state, view[0].members) == ("consumer", "Empty", ())
        assert await groups.table.view("never") is None


async def test_groups_do_not_wait_for_each_other(autojump_clock: MockClock) -> None:
    """A slow log delays only its own group."""
    async with hosted_groups() as groups:
        joined = await groups.native("n", group="quick")
        groups.log.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: groups.native("m", group="slow"))
            await wait_all_tasks_blocked()
            quick = groups.view("quick")
            assert quick is not None
            assert quick.members
            groups.log.gate.set()
        again = await groups.native("n", joined.member_epoch, group="quick")
        assert again.error is ErrorCode.NONE


async def test_groups_with_members_are_loaded_at_the_start(
    autojump_clock: MockClock,
) -> None:
    """After a restart, members that died time out a full session later, and the others remain
    members. Quiet groups stay in the log."""
    async with hosted_groups() as before:
        joined = await before.native("alive")
        await before.native("dead")
        await before.native("gone", group="quiet")
        await before.native("gone", -1, group="quiet")
        log = before.log
    async with hosted_groups(log=log) as groups:
        await groups.table.resume()
        await wait_all_tasks_blocked()
        assert list(groups.running) == [GROUP]
        assert groups.table.is_live(GROUP)
        session_s = groups.config.consumer_session_timeout_ms / 1000
        await trio.sleep(session_s - 1)
        view = await groups.table.view(GROUP)
        assert view is not None
        assert {member.member_id for member in view[0].members} == {"alive", "dead"}
        beaten = await groups.native("alive", joined.member_epoch)
        assert beaten.error is ErrorCode.NONE
        beaten = await groups.native("alive", joined.member_epoch)
        # DEV D67: it must revoke partitions, and has not yet stated what it owns.
        assert beaten.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        await trio.sleep(2)
        view = await groups.table.view(GROUP)
        assert view is not None
        assert [member.member_id for member in view[0].members] == ["alive"]


def delayed(log: ScriptedLog, monkeypatch: pytest.MonkeyPatch) -> trio.Event:
    """Let no record be read until the event is set."""
    real, may_read = log.read, trio.Event()

    async def read(group_id: str) -> Sequence[DurableRecord]:
        if not may_read.is_set():
            raise StateLogError("it takes its time")
        return await real(group_id)

    monkeypatch.setattr(log, "read", read)
    return may_read


async def test_the_group_of_a_request_is_loaded_before_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway serves before it has loaded thousands of groups."""
    async with hosted_groups() as before:
        for number in range(3):
            joined = await before.native("n", group=f"g{number}")
        log = before.log
    is_asked = delayed(log, monkeypatch)
    async with hosted_groups(log=log) as groups:
        with capture_logs() as lines:
            await groups.nursery.start(groups.table.resume)
            await wait_all_tasks_blocked()
            assert not groups.running
            is_asked.set()
            beaten = await groups.native("n", joined.member_epoch, group="g2")
            assert beaten.error in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            assert groups.running == ("g2",)
            await trio.sleep(2 * RESUME_RETRY_S)
        assert sorted(groups.running) == ["g0", "g1", "g2"]
        assert [line["groups"] for line in lines if line["event"] == "groups_resumed"] == [3]


async def test_an_adoption_in_the_log_counts_before_it_is_loaded(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster must not answer for the group meanwhile."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    log = ScriptedLog()
    await log.append(GROUP, [GroupAdoption(value=Adoption(group=group))])
    await log.append("other", [GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000})])
    delayed(log, monkeypatch)
    async with hosted_groups(log=log) as groups:
        await groups.nursery.start(groups.table.resume)
        assert not groups.running
        assert groups.table.is_moving(GROUP)
        assert not groups.table.is_moving("other")


async def test_adopted_groups_are_known_from_the_start(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster must not answer for a group that has not been read, and may have members."""
    group = ClassicGroupMetadata(
        value=ClassicGroupValue(protocol_type=None, generation=3, protocol=None, leader=None)
    )
    log = ScriptedLog()
    await log.append("adopted", [group])
    await log.append("by-setting", [group, ServedBySetting(is_so=True)])
    await log.append("released", [GroupRelease(value=Release())])
    await log.append("configs", [GroupConfigs(overrides={"consumer.session.timeout.ms": 50_000})])
    is_asked = delayed(log, monkeypatch)
    async with hosted_groups(log=log) as groups:
        await groups.nursery.start(groups.table.resume)
        names = ("adopted", "by-setting", "released", "configs")
        assert [each for each in names if groups.table.is_adopted(each)] == [*names[:3]]
        is_asked.set()
        await trio.sleep(2 * RESUME_RETRY_S)
        assert [each for each in names if groups.table.is_adopted(each)] == ["adopted"]


@pytest.mark.parametrize("is_under_way", [True, False])
async def test_only_a_release_that_is_over_leaves_the_group_to_the_cluster(
    autojump_clock: MockClock, *, is_under_way: bool
) -> None:
    """Until then the next process takes over its anchor: the killed one's still holds the group."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    log = ScriptedLog()
    release = Release(group=group) if is_under_way else Release()
    await log.append(GROUP, [GroupRelease(value=release)])
    async with hosted_groups(log=log, max_groups=1) as groups:
        groups.cluster.failure = UpstreamError("not now")
        await groups.nursery.start(groups.table.resume)
        await wait_all_tasks_blocked()
        assert groups.table.driver(GROUP).group.standing.is_released is not is_under_way


async def test_a_group_that_has_not_been_read_does_not_belong_to_the_cluster(
    autojump_clock: MockClock,
) -> None:
    """Its members may be in the log, although a setting leaves the group to the cluster by now."""
    async with hosted_groups() as before:
        await before.native("n")
        log = before.log
    async with hosted_groups(log=log) as groups:
        groups.table._rules.standing.forward_patterns = (GROUP,)
        groups.cluster.failure = UpstreamError("not now")
        await groups.nursery.start(groups.table.resume)
        await wait_all_tasks_blocked()
        assert not groups.table.is_live(GROUP)
        assert not groups.table.is_adopted(GROUP)
        assert not groups.table.belongs_to_cluster(GROUP)


async def test_a_group_that_is_being_adopted_is_loaded_beyond_the_limit(
    autojump_clock: MockClock,
) -> None:
    """Unloaded, its members' requests would go to the cluster."""
    group = ClassicGroupValue(protocol_type="consumer", generation=3, protocol="range", leader="m")
    log = ScriptedLog()
    await log.append(GROUP, [GroupAdoption(value=Adoption(group=group))])
    async with hosted_groups(log=log, max_groups=0) as groups:
        await groups.nursery.start(groups.table.resume)
        await wait_all_tasks_blocked()
        assert groups.table.is_moving(GROUP)
        assert groups.table.driver(GROUP).group.adoption.treatment is Treatment.HELD


async def test_a_log_that_is_lost_during_the_start_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    """Two gateways start at once. The later one fences the other, which regains the log a moment
    later, so neither has to end."""
    async with hosted_groups() as before:
        await before.native("n")
        log = before.log
    log.is_unreadable = True
    async with hosted_groups(log=log) as groups:
        with capture_logs() as lines:
            groups.nursery.start_soon(groups.table.resume)
            await trio.sleep(10 * RESUME_RETRY_S)
            assert groups.running == ()
            log.is_unreadable = False
            await trio.sleep(RESUME_RETRY_S)
            await wait_all_tasks_blocked()
        assert groups.table.is_live(GROUP)
    assert {line["event"] for line in lines} >= {"resume_delayed", "groups_resumed"}


async def test_an_unreadable_group_is_refused_and_others_are_served(
    autojump_clock: MockClock,
) -> None:
    """One log line names its unreadable record."""
    async with hosted_groups() as before:
        await before.native("m", group="damaged")
        await before.native("n")
        log = before.log
    log.records.unreadable["damaged"] = "the record at offset 7 cannot be read"
    async with hosted_groups(log=log) as groups:
        with capture_logs() as lines:
            await groups.table.resume()
        await wait_all_tasks_blocked()
        assert groups.table.is_live(GROUP)
        (line,) = [each for each in lines if each["event"] == "group_unreadable"]
        assert (line["group_id"], line["reason"]) == (
            "damaged",
            "the record at offset 7 cannot be read",
        )
        refused = await groups.native("m", group="damaged")
        assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await groups.table.group_ids() == (GROUP,)
        assert await groups.table.groups_with_configs() == ()
        with pytest.raises(StateLogUnreadable):
            await log.read("damaged")


async def test_groups_beyond_the_limit_are_not_loaded(autojump_clock: MockClock) -> None:
    """The limit was lowered. The others are served, and the log has the number of those left
    out."""
    async with hosted_groups() as before:
        for number in range(3):
            await before.native("n", group=f"g{number}")
        log = before.log
    async with hosted_groups(log=log, max_groups=2) as groups:
        with capture_logs() as lines:
            await groups.table.resume()
        assert len(groups.running) == 2
        assert [line["groups"] for line in lines if line["event"] == "groups_left_out"] == [1]


async def test_hosted_groups_are_known_until_their_anchors_have_left(
    autojump_clock: MockClock,
) -> None:
    """They keep the gateway from being removed. Meanwhile none is adopted."""
    async with hosted_groups() as groups:
        await groups.native("n", group="a")
        with groups.table.taking_none():
            assert groups.table.hosted_ids() == {"a"}
            outcome = await groups.table.adopt("b")
            assert outcome.reasons != ()
        await groups.native("n", -1, group="a")
        await trio.sleep(2)
        assert groups.table.hosted_ids() == set()


def there(*types: MemberType) -> ConsumerGroupDescribeResponse:
    """A group of the cluster, with members of these types."""
    none = Assignment(topic_partitions=())
    members = tuple(
        Member(
            member_id=str(number),
            client_id="c",
            client_host="/",
            member_epoch=1,
            subscribed_topic_names=(),
            assignment=none,
            target_assignment=none,
            member_type=kind,
        )
        for number, kind in enumerate(types)
    )
    return ConsumerGroupDescribeResponse(groups=(DescribedGroup(group_id=GROUP, members=members),))


async def test_a_group_of_the_cluster_is_held_at_the_native_members_that_it_has(
    autojump_clock: MockClock,
) -> None:
    """The hold outlives the process, and no engine stays in memory for it. A dry run changes
    nothing; a pause is impossible."""
    log = ScriptedLog()
    async with hosted_groups(log=log) as groups:
        told = there(MemberType.CLASSIC, MemberType.CONSUMER)
        gone = describe_groups.DescribedGroup(group_id=GROUP, error_code=69)
        groups.cluster.spoken = {**KAFKA_2_3, ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1)}
        groups.cluster.answers = {
            DescribeGroupsRequest: lambda _: DescribeGroupsResponse(groups=(gone,)),
            ConsumerGroupDescribeRequest: lambda _: told,
        }
        table = groups.table
        assert await table.set_policy(GROUP, RollMode.HOLD, dry_run=True) == ""
        assert table.glance(GROUP).policy is RollMode.ALLOW
        assert await table.set_policy(GROUP, RollMode.HOLD, dry_run=False) == ""
        assert log.config_overrides(GROUP) == {NATIVE_MEMBERS_MAX: 1}
        assert "only be held" in await table.set_policy(GROUP, RollMode.PAUSE, dry_run=False)
        await trio.sleep(QUIET_S)
        assert groups.running == ()
    async with hosted_groups(log=log) as groups:
        assert groups.table.glance(GROUP).policy is RollMode.HOLD
