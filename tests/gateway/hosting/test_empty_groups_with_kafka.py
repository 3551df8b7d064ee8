"""What the defaults make of groups that are empty for a moment, in front of Apache Kafka.

While a group is inserted, some of its consumers still connect to the cluster itself.
"""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from coordinator.group.load import is_adopted
from gateway.control.client import give
from gateway.control.messages import AdoptCommand, ReleaseCommand
from gateway.hosting.identity import log_of
from gateway.operators import OperatorsConfig
from gateway.settings import Settings
from gateway.state_log.memory import MemoryLog
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from tests.support.gateway import whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client, joined_by_two
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.until import until_answered

DEFAULT = Settings.model_fields["groups_host"].default

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]


async def take_id(client: GroupClient) -> str:
    """A new member's id."""
    joined = await client.join()
    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED, joined
    return joined.member_id


async def join_as_second(
    first: GroupClient, leader: JoinGroupResponse, second: GroupClient
) -> JoinGroupResponse:
    """The second consumer joins the first one, and both get partitions. Returns its answer."""
    member_id = await take_id(second)
    _leader, follower = await joined_by_two(first, leader.member_id, second, member_id)
    assert (await second.beat(follower)).error_code == 0
    return follower


@pytest.mark.parametrize("is_here_first", [True, False])
async def test_consumers_at_both_addresses_share_a_new_group(
    kafka: KafkaCluster, *, is_here_first: bool
) -> None:
    """Whichever of them comes first."""
    group = fresh_group("new")
    async with (
        whole_gateway(kafka.addresses, host_patterns=DEFAULT) as gateway,
        group_client(gateway.address, group, client_id="behind") as behind,
        group_client(kafka.addresses[0], group, client_id="direct") as direct,
    ):
        first, second = (behind, direct) if is_here_first else (direct, behind)
        await join_as_second(first, await first.enter(), second)
        described = await direct.describe()
        assert {member.client_id for member in described.members} == {"behind", "direct"}
        assert not gateway.events


async def test_a_group_is_as_it_was_through_redeploys_and_restarts(kafka: KafkaCluster) -> None:
    """A group of one moves to the gateway and back, is scaled to zero, and is deployed as a whole
    with one of its consumers behind the gateway. The gateway is restarted in between."""
    group, log = fresh_group("redeployed"), MemoryLog()
    for _ in range(2):
        async with (
            whole_gateway(kafka.addresses, host_patterns=DEFAULT, state_log=log) as gateway,
            group_client(gateway.address, group) as behind,
            group_client(kafka.addresses[0], group) as direct,
        ):
            for one in (direct, behind, direct, behind):
                joined = await one.enter()
                epoch, member_id = joined.generation_id, joined.member_id
                assert await one.commit({0: 5}, member_id=member_id, epoch=epoch) == {0: 0}
                assert (await one.leave(joined.member_id)).error_code == 0
            leader = await behind.enter()
            follower = await join_as_second(behind, leader, direct)
            await behind.leave(leader.member_id)
            await direct.leave(follower.member_id)
            assert "group_created" not in [event.name for event in gateway.events]
    assert await log.group_ids() == ()


async def test_an_adopted_group_is_hosted_until_it_is_released(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The gateway hosts the group also while it is empty. If consumers join in the cluster
    meanwhile, it is forwarded with a warning until they are gone."""
    group, operators = fresh_group("adopted"), OperatorsConfig(control_folder=tmp_path)
    async with (
        whole_gateway(
            kafka.addresses, host_patterns=DEFAULT, operators=operators, anchor_linger_s=0.1
        ) as gateway,
        group_client(gateway.address, group) as behind,
        group_client(kafka.addresses[0], group) as direct,
    ):
        trial = await give(tmp_path, AdoptCommand(group_id=group, dry_run=True))
        assert (trial.is_marked, trial.reasons) == (True, ())
        outside = await direct.enter()
        assert not (await give(tmp_path, AdoptCommand(group_id=group))).is_marked
        await direct.leave(outside.member_id)
        adopted = await give(tmp_path, AdoptCommand(group_id=group))
        assert (adopted.is_marked, adopted.is_adopted, adopted.reasons) == (True, False, ())
        with capture_logs() as lines:
            for times in (1, 2):
                joined = await behind.enter()
                assert await is_hosted(direct)
                await behind.leave(joined.member_id)
                await until_answered(direct.describe, lambda group: not group.members)
                outside = await direct.enter()
                follower = await join_as_second(direct, outside, behind)
                assert not await is_hosted(direct)
                warnings = [line for line in lines if line["event"] == "adopted_group_forwarded"]
                assert len(warnings) == times
                await direct.leave(outside.member_id)
                await behind.leave(follower.member_id)
        outside = await direct.enter()
        assert (await give(tmp_path, ReleaseCommand(group_id=group))).is_released, (
            "it removes the mark"
        )
        await direct.leave(outside.member_id)
        await behind.enter()
        assert not await is_hosted(direct)


async def test_a_first_native_consumer_is_hosted_only_where_the_cluster_cannot_serve_it(
    kafka: KafkaCluster,
) -> None:
    """The group is then adopted: a classic consumer that comes back first must not send it to the
    cluster."""
    group = fresh_group("native")
    async with (
        whole_gateway(kafka.addresses, host_patterns=DEFAULT, anchor_linger_s=0.1) as gateway,
        group_client(gateway.address, group) as behind,
        group_client(kafka.addresses[0], group) as direct,
    ):
        assert (await behind.native("n")).error_code == 0
        assert await is_hosted(direct) is not kafka.has_new_protocol
        assert (await behind.native("n", -1)).error_code == 0
        if not kafka.has_new_protocol:
            await until_answered(direct.describe, lambda group: not group.members)
        await behind.enter()
        assert await is_hosted(direct) is not kafka.has_new_protocol


@pytest.mark.parametrize("forward", [(), ("*",)])
async def test_deleting_a_group_removes_its_mark(
    kafka: KafkaCluster, tmp_path: Path, forward: tuple[str, ...]
) -> None:
    """The cluster does not know a group that nobody has joined, and the answer says so. If a
    setting leaves the group to the cluster by then, it is released meanwhile, and may be known."""
    group, log = fresh_group("deleted"), MemoryLog()
    operators = OperatorsConfig(control_folder=tmp_path)
    async with whole_gateway(kafka.addresses, operators=operators, state_log=log):
        assert (await give(tmp_path, AdoptCommand(group_id=group))).is_marked
    assert is_adopted(await log.read(group))
    async with (
        whole_gateway(kafka.addresses, forward_patterns=forward, state_log=log) as gateway,
        group_client(gateway.address, group) as client,
    ):
        code = await client.delete()
        assert code == ErrorCode.GROUP_ID_NOT_FOUND or (forward and code == ErrorCode.NONE)
    records = await log.read(group)
    assert not is_adopted(records)
    assert forward or not records


async def is_hosted(direct: GroupClient) -> bool:
    """Whether an anchor is in the group."""
    return log_of(await direct.describe()) is not None
