"""What operators order for groups."""

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from coordinator.interface.records import RemovalCause
from coordinator.interface.roll_policy import NATIVE_MEMBERS_MAX, RollMode
from gateway.events.member_events import MemberFenced
from gateway.groups.group_orders import why_not_set
from gateway.hosting.inputs import MoveRequested
from gateway.hosting.lookup_outcome import (
    LiveMembers,
    LookupFailed,
    LookupOutcome,
    NoMembers,
    OtherGroupType,
)
from gateway.hosting.move_requests import AdoptRequest, ReleaseRequest
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
from tests.support.event_lines import envelope_of
from tests.support.hosted_groups import GROUP, QUIET_S, ScriptedLog, hosted_groups
from tests.support.hosted_scene import DIRECT, anchored

KAFKA_2_3: dict[int, tuple[int, int]] = dict.fromkeys(
    (
        *(ApiKey.DESCRIBE_GROUPS, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT),
        *(ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT),
    ),
    (0, 7),
)
"""A broker that can hold anchors."""

MIXED = LiveMembers("consumer", ("c", "n"), native_ids=(frozenset({"n", "i"}),))
UNTOLD = LiveMembers("consumer", ("c",), native_ids=(frozenset({"c"}),), tells_natives=False)


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
        reason = there(MemberType.CLASSIC, MemberType.CONSUMER)
        gone = describe_groups.DescribedGroup(group_id=GROUP, error_code=69)
        groups.cluster.spoken = {**KAFKA_2_3, ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1)}
        groups.cluster.answers = {
            DescribeGroupsRequest: lambda _: DescribeGroupsResponse(groups=(gone,)),
            ConsumerGroupDescribeRequest: lambda _: reason,
        }
        table = groups.table
        assert await table.orders.set_policy(GROUP, RollMode.HOLD, dry_run=True) == ""
        assert table.views.snapshot(GROUP).policy is RollMode.ALLOW
        assert await table.orders.set_policy(GROUP, RollMode.HOLD, dry_run=False) == ""
        assert log.config_overrides(GROUP) == {NATIVE_MEMBERS_MAX: 1}
        assert "only be held" in await table.orders.set_policy(GROUP, RollMode.PAUSE, dry_run=False)
        await trio.sleep(QUIET_S)
        assert groups.running == ()
    async with hosted_groups(log=log) as groups:
        assert groups.table.views.snapshot(GROUP).policy is RollMode.HOLD


@pytest.mark.parametrize(
    ("outcome", "policy", "reason"),
    [
        (DIRECT, RollMode.HOLD, ""),
        (MIXED, RollMode.ALLOW, ""),
        (UNTOLD, RollMode.ALLOW, ""),
        (UNTOLD, RollMode.HOLD, "does not say which members are native"),
        (MIXED, RollMode.PAUSE, "only be held"),
        (anchored("log-2", 1), RollMode.HOLD, "another gateway holds it"),
        (LookupFailed("nobody listens"), RollMode.HOLD, "nobody listens"),
        (NoMembers(), RollMode.HOLD, "has consumers in a group of this name"),
        (LiveMembers("connect", ("w",)), RollMode.HOLD, "its protocol type is connect"),
        (LiveMembers("consumer", ("s",), "stream"), RollMode.HOLD, "Kafka Streams"),
        (OtherGroupType("share"), RollMode.HOLD, "has consumers in a group of this name"),
    ],
)
def test_an_operator_learns_what_cannot_be_held(
    outcome: LookupOutcome, policy: RollMode, reason: str
) -> None:
    """The cluster assigns partitions by itself, so nothing there can be paused."""
    refusal = why_not_set(outcome, policy)
    assert reason in refusal
    assert bool(reason) is bool(refusal)


async def test_a_trial_of_an_adoption_says_that_the_group_moves(autojump_clock: MockClock) -> None:
    """The group is being released, or is adopted already."""
    async with hosted_groups() as groups:
        groups.table.drivers.driver(GROUP).feed(MoveRequested(ReleaseRequest()))
        outcome = await groups.table.orders.adopt(GROUP, dry_run=True)
        assert outcome.reasons == ("it changes its coordinator: try again",)


@pytest.mark.parametrize("is_released", [False, True])
async def test_a_trial_of_a_release_says_that_the_group_is_being_adopted(
    autojump_clock: MockClock, *, is_released: bool
) -> None:
    """The request would join a release that is under way already."""
    async with hosted_groups() as groups:
        orders = groups.table.orders
        rules = orders._rules = replace(orders._rules, can_anchor=True)
        groups.cluster.answers = {
            DescribeGroupsRequest: lambda _: DescribeGroupsResponse(groups=())
        }
        driver = groups.table.drivers.driver(GROUP)
        request = ReleaseRequest() if is_released else AdoptRequest()
        driver.group.move.accept(request, 0)
        assert rules.can_anchor
        outcome = await orders.release_to_cluster(GROUP, dry_run=True)
        assert outcome.reasons == (() if is_released else ("it is being adopted: try again",))


@pytest.mark.parametrize("state", ["Dead", "Empty"])
async def test_an_adoption_says_whether_anybody_knows_the_group(
    autojump_clock: MockClock, state: str
) -> None:
    """The operator may have misspelt it. An empty group with offsets is known to the cluster."""
    async with hosted_groups() as groups:
        await groups.nursery.start(groups.table.resume)
        orders = groups.table.orders
        orders._rules = replace(orders._rules, can_anchor=True)
        group = describe_groups.DescribedGroup(group_id="misspelt", group_state=state)
        groups.cluster.spoken = KAFKA_2_3
        groups.cluster.answers = {
            DescribeGroupsRequest: lambda _: DescribeGroupsResponse(groups=(group,))
        }
        outcome = await orders.adopt("misspelt", dry_run=True)
    assert (outcome.is_marked, outcome.is_known) == (True, state == "Empty")


async def test_departures_are_noted_while_another_gateway_may_own_the_log() -> None:
    """The lease may run out between the write of an event and its telling, which must not fail."""

    class Doubtful(ScriptedLog):
        may_answer = True

    log = Doubtful()
    async with hosted_groups(log=log) as groups:
        await groups.native("n")
        log.may_answer = False
        fenced = MemberFenced(member_id="n", cause=RemovalCause.SESSION_EXPIRED)
        away = groups.table.orders.away
        away.observe(envelope_of(fenced, group_id=GROUP, at_ms=0))
        assert away.hand_over(lambda group_id: group_id == GROUP) is not None
