"""The guarantees of the anchor in front of real Apache Kafka, as listed in
`gateway/docs/anchor.md`. test_moves_with_kafka.py covers coordinators that move."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest
import trio
from structlog.testing import capture_logs

from gateway.hosting.identity import INSTANCE_ID
from gateway.state_log.memory import MemoryLog
from kafka_codecs.error_codes import ErrorCode
from tests.support.direct_clients import (
    anchor_in,
    consume_for,
    delete_offsets,
    produce,
    remove_anchor,
    replace_anchor,
    until_anchored,
)
from tests.support.gateway import QUICK, whole_gateway
from tests.support.group_client import GroupClient, fresh_group, group_client
from tests.support.kafka_broker import (
    FETCH_TIMEOUT_S,
    PARTITIONS,
    TOPIC,
    KafkaCluster,
)
from tests.support.releases import with_anchors
from tests.support.until import until, until_answered, until_logged

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(FETCH_TIMEOUT_S),
    with_anchors(),
]

SHORT_SESSION_MS = 3_000


@asynccontextmanager
async def held_group(kafka: KafkaCluster) -> AsyncIterator[tuple[GroupClient, GroupClient]]:
    """Two clients of one group: one connects directly to the cluster, one through the gateway."""
    group = fresh_group("held")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        yield direct, client


# -- direct clients of the cluster -----------------------------------------------------------------


async def test_a_direct_consumer_gets_nothing(kafka: KafkaCluster) -> None:
    """A direct consumer would read every record a second time. In a group without an anchor it gets
    everything."""
    await trio.to_thread.run_sync(produce, kafka.bootstrap_servers, TOPIC, PARTITIONS)
    group = fresh_group("held")
    got: dict[tuple[str, str], tuple[int, set[str]]] = {}

    async def consume(group_id: str, protocol: str) -> None:
        around = partial(consume_for, kafka.bootstrap_servers, TOPIC, group_id, protocol, 5.0)
        got[group_id, protocol] = await trio.to_thread.run_sync(around)

    async with (
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await client.native("n")
        free = {protocol: fresh_group("free") for protocol in kafka.protocols}
        async with trio.open_nursery() as nursery:
            for protocol in kafka.protocols:
                nursery.start_soon(consume, group, protocol)
                nursery.start_soon(consume, free[protocol], protocol)
        reasons = {"classic": "Inconsistent group protocol", "consumer": "group id does not exist"}
        for protocol in kafka.protocols:
            records, (error,) = got[group, protocol]
            assert records == 0
            assert reasons[protocol] in error
            records, errors = got[free[protocol], protocol]
            assert (records > 0, errors) == (True, set())
        assert (await client.native("n", joined.member_epoch)).error_code == 0


async def test_direct_resets_and_deletes_are_refused_while_the_group_lives(
    kafka: KafkaCluster,
) -> None:
    """Through the gateway an empty group's offsets can be reset and deleted although the anchor
    lingers, and so can the group."""
    async with held_group(kafka) as (direct, client):
        joined = await client.enter()
        identity = {"member_id": joined.member_id, "epoch": joined.generation_id}
        assert await client.commit({0: 7, 1: 8}, **identity) == {0: 0, 1: 0}  # type: ignore[arg-type]
        assert await direct.commit({0: 0}, version=8) == {0: ErrorCode.UNKNOWN_MEMBER_ID}
        assert await direct.delete() == ErrorCode.NON_EMPTY_GROUP
        assert await delete_offsets(direct) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await direct.fetch_offsets() == {0: 7, 1: 8, 2: -1}

        await client.leave(joined.member_id)
        await anchor_in(direct)
        described = await client.describe()
        assert (described.group_state, described.protocol_type) == ("Empty", "consumer")
        assert await client.commit({0: 0}, version=8) == {0: 0}
        assert await direct.fetch_offsets() == {0: 0, 1: 8, 2: -1}
        assert await delete_offsets(client, [1]) == 0
        assert await direct.fetch_offsets() == {0: 0, 1: -1, 2: -1}
        await client.enter()
        await anchor_in(direct)


async def test_a_deleted_group_is_gone_and_may_return(kafka: KafkaCluster) -> None:
    """The anchor leaves before the cluster deletes the group."""
    async with held_group(kafka) as (direct, client):
        joined = await client.native("n")
        await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        assert await client.delete() == ErrorCode.NON_EMPTY_GROUP
        await client.native("n", -1)
        assert await client.delete() == 0
        assert (await direct.describe()).group_state == "Dead"
        assert await direct.fetch_offsets() == {0: -1, 1: -1, 2: -1}
        assert (await client.native("n")).error_code == 0
        await anchor_in(direct)


async def test_the_group_is_free_some_time_after_its_last_member(kafka: KafkaCluster) -> None:
    """A consumer may then join it in the cluster, and continues from its offsets."""
    group = fresh_group("held")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses, anchor_linger_s=0.5) as gateway,
        group_client(gateway.address, group) as client,
    ):
        joined = await client.native("n")
        await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        await anchor_in(direct)
        await client.native("n", -1)
        await until_answered(direct.describe, lambda group: not group.members)
        await direct.enter()
        assert (await direct.fetch_offsets())[0] == 7


async def test_a_gateway_without_durable_state_releases_its_groups_at_its_end(
    kafka: KafkaCluster,
) -> None:
    """Its members find that the next gateway may take the group."""
    group = fresh_group("held")
    async with group_client(kafka.addresses[0], group) as direct:
        for _ in range(2):
            async with whole_gateway(kafka.addresses) as gateway:
                async with group_client(gateway.address, group) as client:
                    assert (await client.native("n")).error_code == 0
                    await anchor_in(direct)
                gateway.stop.set()
                await gateway.ended.wait()
            assert (await direct.describe()).members == ()


# -- other gateways ------------------------------------------------------------------------------


async def test_a_second_gateway_with_another_state_log_is_refused(kafka: KafkaCluster) -> None:
    """Its clients must retry, its log has the reason once, and the first gateway notices nothing.
    When the first has gone, the second waits for members that it may have left behind."""
    group = fresh_group("contested")
    short_sessions = replace(
        QUICK,
        classic_max_session_timeout_ms=SHORT_SESSION_MS,
        consumer_max_session_timeout_ms=SHORT_SESSION_MS,
    )
    async with (
        whole_gateway(kafka.addresses) as first,
        whole_gateway(kafka.addresses, groups=short_sessions) as second,
        group_client(first.address, group) as holder,
        group_client(second.address, group) as other,
    ):
        joined = await holder.native("n")
        await holder.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        with capture_logs() as lines:
            for _ in range(3):
                refused = await other.native("m")
                assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                assert "another gateway" in (refused.error_message or "")
                assert (await other.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        (line,) = [line for line in lines if line["log_level"] == "error"]
        assert (line["event"], line["group_id"]) == ("group_hosted_elsewhere", group)
        assert await other.commit({0: 1}, version=8) == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        stored = await holder.commit({0: 8}, member_id="n", epoch=joined.member_epoch)
        assert stored == {0: 0}
        assert not second.events
        first.stop.set()
        await first.ended.wait()
        with capture_logs() as lines:
            refused = await other.native("m")
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert "state log" in (refused.error_message or "")
        assert [line["event"] for line in lines] == ["group_waits_for_sessions"]
        await until_answered(lambda: other.native("m"), lambda joined: not joined.error_code)


async def test_a_gateway_whose_anchor_was_replaced_cannot_commit(kafka: KafkaCluster) -> None:
    """A gateway with the same state log replaces the anchor and keeps it. The first gateway gives
    way, its members are fenced, and one error names the other."""
    group = fresh_group("contested")
    log = MemoryLog()
    twin = MemoryLog()
    twin.id, twin.run_id = log.id, log.run_id + 1
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses, state_log=log) as first,
        whole_gateway(kafka.addresses, state_log=twin) as second,
        group_client(first.address, group) as old,
        group_client(second.address, group) as new,
    ):
        before = await old.native("n")
        await old.commit({0: 7}, member_id="n", epoch=before.member_epoch)
        with capture_logs() as lines:
            joined = await new.native("m")
            assert joined.error_code == 0
            held = await anchor_in(direct)
            refused = await old.commit({0: 99}, member_id="n", epoch=before.member_epoch)
            assert refused in (
                {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS},
                {0: ErrorCode.UNKNOWN_MEMBER_ID},
            )
            await until_logged(lines, "group_taken")
            await until(lambda: any(event.name == "member_fenced" for event in first.events))
            fenced = await old.native("n", before.member_epoch)
            assert fenced.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            for _ in range(5):
                assert (await old.native("n")).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                refused = await old.commit({0: 99}, member_id="n", epoch=before.member_epoch)
                assert refused == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        errors = [line for line in lines if line["log_level"] == "error"]
        assert [line["event"] for line in errors] == ["group_hosted_elsewhere", "group_taken"]
        assert "with our state log" in errors[1]["reason"]
        assert await new.commit({0: 8}, member_id="m", epoch=joined.member_epoch) == {0: 0}
        assert (await direct.fetch_offsets())[0] == 8
        assert (await anchor_in(direct)).members[0].member_id == held.members[0].member_id


async def test_a_restarted_gateway_is_another_member(kafka: KafkaCluster) -> None:
    """The gateway was killed and restarts with its state log. Its anchor replaces its predecessor
    in a new generation, and earlier requests of the predecessor are refused from then on."""
    group = fresh_group("held")
    log = MemoryLog()
    async with group_client(kafka.addresses[0], group) as direct:
        async with (
            whole_gateway(kafka.addresses, state_log=log) as gateway,
            group_client(gateway.address, group) as client,
        ):
            joined = await client.native("n")
            before = await anchor_in(direct)
        async with (
            whole_gateway(kafka.addresses, state_log=log) as gateway,
            group_client(gateway.address, group) as client,
        ):
            assert (await client.native("m")).error_code == 0
            (predecessor,) = before.members
            (present,) = (await anchor_in(direct)).members
            assert present.member_id != predecessor.member_id
            stored = await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
            assert stored == {0: 0}
            for epoch in (1, 2):  # in any generation
                late = await direct.commit(
                    {0: 5},
                    member_id=predecessor.member_id,
                    instance_id=INSTANCE_ID,
                    epoch=epoch,
                    version=8,
                )
                assert late == {0: ErrorCode.FENCED_INSTANCE_ID}
            assert (await direct.fetch_offsets())[0] == 7


async def test_an_admin_can_reset_and_delete_an_empty_group_after_a_restart(
    kafka: KafkaCluster,
) -> None:
    """The gateway was killed while its anchor lingered, so the cluster sees a member."""
    group, log = fresh_group("held"), MemoryLog()
    async with group_client(kafka.addresses[0], group) as direct:

        @asynccontextmanager
        async def next_gateway() -> AsyncIterator[GroupClient]:
            async with (
                whole_gateway(kafka.addresses, state_log=log) as gateway,
                group_client(gateway.address, group) as client,
            ):
                yield client

        async with next_gateway() as client:
            joined = await client.native("n")
            assert await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch) == {0: 0}
            await client.native("n", -1)
        await anchor_in(direct)
        async with next_gateway() as client:
            assert await client.commit({0: 3}) == {0: 0}
        assert (await direct.fetch_offsets())[0] == 3
        await anchor_in(direct)
        async with next_gateway() as client:
            described = await client.describe()
            assert (described.group_state, described.members) == ("Empty", ())
            assert await client.delete() == 0
        assert (await direct.describe()).members == ()
        assert (await direct.fetch_offsets())[0] == -1


# -- the lost anchor -----------------------------------------------------------------------------


def granted_numbers(reply: object) -> set[int]:
    """The partitions in a heartbeat's answer."""
    assignment = getattr(reply, "assignment", None)
    topics = assignment.topic_partitions if assignment else ()
    return {number for topic in topics for number in topic.partitions}


async def test_an_anchor_removed_by_an_admin_rejoins(kafka: KafkaCluster) -> None:
    """A commit notices first, and only takes longer. No member is disturbed."""
    async with held_group(kafka) as (direct, client):
        joined = await client.native("n")
        before = await anchor_in(direct)
        assert await remove_anchor(direct) == 0
        assert (await direct.describe()).members == ()
        stored = await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        assert stored == {0: 0}
        after = await anchor_in(direct)
        assert after.members[0].member_id != before.members[0].member_id
        assert (await client.native("n", joined.member_epoch)).error_code == 0


@pytest.mark.parametrize("intruder", ["classic", "newest"])
async def test_a_direct_member_that_has_left_unseen_has_had_the_group(
    kafka: KafkaCluster, intruder: str
) -> None:
    """The member came after an admin removed the anchor, and left before the anchor rejoined. The
    group's generation shows it; after a native member the group begins again, as one that was lost.
    The hosted members are fenced, so that they read on from its commits."""
    is_native = intruder == "newest" and kafka.has_new_protocol
    async with held_group(kafka) as (direct, client):
        joined = await client.native("n")
        await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        with capture_logs() as lines:
            await remove_anchor(direct)
            if is_native:
                await direct.native("i")
                await direct.native("i", -1)
            else:
                member = await direct.enter()
                await direct.leave(member.member_id)
            refused = await client.commit({0: 8}, member_id="n", epoch=joined.member_epoch)
            assert refused == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            await until_logged(lines, "generation_went_back" if is_native else "group_taken")
        gone = await client.native("n", joined.member_epoch)
        assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await direct.fetch_offsets())[0] == 7
        assert granted_numbers(await client.native("n")) == set(range(PARTITIONS))


async def test_a_quiet_group_notices_a_removed_anchor(kafka: KafkaCluster) -> None:
    """The anchor's next heartbeat does."""
    async with held_group(kafka) as (direct, client):
        await client.native("n")
        before = await anchor_in(direct)
        await remove_anchor(direct)
        with trio.fail_after(8):
            await until_anchored(direct, but_not_by=before.members[0].member_id)


async def test_no_partition_has_two_owners_while_a_direct_member_is_inside(
    kafka: KafkaCluster,
) -> None:
    """An admin removed the anchor, and a consumer joined before it could return. The hosted members
    are fenced, one error names the intruder, and who joins now joins the cluster's group. After the
    intruder has left, the group is hosted again."""
    group = fresh_group("held")
    async with (
        group_client(kafka.addresses[0], group, client_id="intruder") as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as client,
        group_client(gateway.address, group) as late,
    ):
        joined = await client.native("n")
        assert granted_numbers(joined) == set(range(PARTITIONS))
        await client.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
        await remove_anchor(direct)
        intruder = await direct.enter()
        with capture_logs() as lines:
            refused = await client.commit({0: 8}, member_id="n", epoch=joined.member_epoch)
            assert refused == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            await until_logged(lines, "group_taken")
            await until(lambda: any(event.name == "member_fenced" for event in gateway.events))
            gone = await client.native("n", joined.member_epoch)
            assert gone.error_code == ErrorCode.UNKNOWN_MEMBER_ID
            # An id that was handed out and not used would hold up the anchor's return.
            assert (await late.join("stranger")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert (await direct.describe()).members[0].client_id == "intruder"
        errors = [line for line in lines if line["log_level"] == "error"]
        assert [line["event"] for line in errors] == ["group_taken"]
        assert "intruder" in errors[0]["reason"]
        assert (await direct.beat(intruder)).error_code == 0
        assert (await direct.fetch_offsets())[0] == 7
        await direct.leave(intruder.member_id)
        assert granted_numbers(await late.native("m")) == set(range(PARTITIONS))


@pytest.mark.parametrize("intruder", ["classic", "newest"])
async def test_no_partition_is_granted_once_a_direct_member_is_inside(
    kafka: KafkaCluster, intruder: str
) -> None:
    """The anchor has had no heartbeat since, so it is checked before partitions are granted. The
    intruder uses the cluster's newest protocol, or the classic one."""
    group = fresh_group("held")
    async with (
        group_client(kafka.addresses[0], group, client_id="intruder") as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as first,
        group_client(gateway.address, group) as second,
    ):
        joined = await first.native("n")
        late = await second.native("m")
        assert (len(granted_numbers(joined)), len(granted_numbers(late))) == (PARTITIONS, 0)
        topic_id = await first.topic_id()
        await first.native("n", joined.member_epoch)  # is told to give partitions up
        await first.native("n", joined.member_epoch, owned={topic_id: (0,)})
        with capture_logs() as lines:
            await remove_anchor(direct)
            if intruder == "classic" or not kafka.has_new_protocol:
                await direct.enter()
            else:
                assert granted_numbers(await direct.native("i")) == set(range(PARTITIONS))
            refused = await second.native("m", late.member_epoch)
            assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        (error,) = [line for line in lines if line["log_level"] == "error"]
        assert error["event"] == "group_taken"
        assert "intruder" in error["reason"]
        for client, member_id in ((first, "n"), (second, "m")):
            gone = await client.native(member_id, joined.member_epoch)
            assert gone.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


async def test_no_partition_is_granted_while_the_anchor_is_lost(kafka: KafkaCluster) -> None:
    """A member waits for partitions that another released until the anchor is back."""
    group = fresh_group("held")
    async with (
        group_client(kafka.addresses[0], group) as direct,
        whole_gateway(kafka.addresses) as gateway,
        group_client(gateway.address, group) as first,
        group_client(gateway.address, group) as second,
    ):
        joined = await first.native("n")
        late = await second.native("m")
        topic_id = await first.topic_id()
        await first.native("n", joined.member_epoch)  # is told to give partitions up
        await first.native("n", joined.member_epoch, owned={topic_id: (0,)})
        await remove_anchor(direct)
        refused = await first.commit({0: 1}, member_id="stranger", epoch=1)
        assert refused == {0: ErrorCode.UNKNOWN_MEMBER_ID}, "the engine's own refusal passes"
        assert (await direct.describe()).members == ()
        assert granted_numbers(await second.native("m", late.member_epoch))
        await anchor_in(direct)


# -- errors about the anchor ---------------------------------------------------------------------


async def test_no_error_about_the_anchor_reaches_a_client(kafka: KafkaCluster) -> None:
    """A client removes it and takes its place repeatedly, with its own metadata. Commits are stored
    or retriable, and never go back."""
    codes: set[int] = set()
    reached = 0
    async with held_group(kafka) as (direct, client):
        joined = await client.native("n")

        async def harass() -> None:
            for number in range(24):
                if number % 3 == 0:
                    await until_anchored(direct)
                    await remove_anchor(direct)
                else:
                    await replace_anchor(direct)
                await trio.sleep(0.1)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(harass)
            while len(nursery.child_tasks) or not reached:
                attempt = reached + 1
                (code,) = (
                    await client.commit({0: attempt}, member_id="n", epoch=joined.member_epoch)
                ).values()
                codes.add(code)
                reached = attempt if code == 0 else reached
                beat = await client.native("n", joined.member_epoch)
                assert beat.error_code in (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
                stored = (await direct.fetch_offsets())[0]
                assert stored >= reached
        assert codes <= {0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert (await direct.fetch_offsets())[0] == reached
