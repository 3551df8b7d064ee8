"""The steps of an adoption in front of real coordinators, as `test_adoption.py` assumes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest
import trio

from gateway.hosting.forwarded import WatchedGroup, WatchedMember
from gateway.hosting.states import AdoptionStage as Stage
from kafka_codecs.consumer_protocol import decode_assignment
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.join_group import JoinGroupResponse
from tests.gateway.hosting.adoption_driver import Coordinator, coordinator, now_ms
from tests.support.group_client import GroupClient, fresh_group, group_client, joined_by_two
from tests.support.kafka_broker import FETCH_TIMEOUT_S, KafkaCluster
from tests.support.releases import with_anchors, with_new_protocol
from tests.support.until import until_answered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

LOCKED = (Stage.ANCHORING, Stage.HANDING_OVER)
CHANGING = (Stage.IMPERSONATING, Stage.REJOINING, Stage.RELEASING, Stage.LOCKING, *LOCKED)


@dataclass
class Group:
    """Two consumers that are Stable in the cluster, and who else wants to join."""

    leader: JoinGroupResponse
    follower: JoinGroupResponse
    outsider: GroupClient
    at: Coordinator


@asynccontextmanager
async def stable_group(kafka: KafkaCluster) -> AsyncIterator[Group]:
    name = fresh_group("adopted")
    address = kafka.addresses[0]
    async with (
        group_client(address, name, client_id="a") as a,
        group_client(address, name, client_id="b") as b,
        group_client(address, name, client_id="o") as outsider,
    ):
        first = await a.enter()
        asked = await b.join()
        leader, follower = await joined_by_two(a, first.member_id, b, asked.member_id)
        members = {
            member.member_id: WatchedMember(
                member_id=member.member_id,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                heartbeat_ms=now_ms(),
                joined_here=True,
            )
            for member in (leader, follower)
        }
        watched = WatchedGroup(
            group_id=name,
            generation=leader.generation_id,
            protocol="range",
            leader_id=leader.member_id,
            members=members,
        )
        yield Group(leader, follower, outsider, await coordinator(address, watched))


async def is_anchored(group: Group) -> bool:
    described = await group.outsider.describe()
    (member,) = described.members
    assert group.at.anchor is not None
    return described.group_state == "Stable" and member.member_id == group.at.anchor.member_id


@with_anchors()
async def test_the_anchor_takes_the_members_place(kafka: KafkaCluster) -> None:
    """Outsiders are refused, and commits go under the anchor's ids."""
    async with stable_group(kafka) as group:
        adopted = await group.at.adopt()
        assert adopted.stage is Stage.ADOPTED, adopted.reason
        assert await is_anchored(group)
        refusal = await group.outsider.join()
        assert refusal.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        ids = group.at.anchor
        assert ids is not None
        how = {"instance_id": ids.instance_id, "version": 7}
        identity = {"member_id": ids.member_id, "epoch": ids.generation}
        assert await group.outsider.commit({0: 5}, **identity, **how) == {0: 0}  # type: ignore[arg-type]
        old = {"member_id": group.leader.member_id, "epoch": group.leader.generation_id}
        assert await group.outsider.commit({0: 4}, version=7, **old) == {  # type: ignore[arg-type]
            0: ErrorCode.UNKNOWN_MEMBER_ID
        }
        assert (await group.outsider.fetch_offsets())[0] == 5


@pytest.mark.parametrize("stage", CHANGING)
async def test_an_outsider_gets_nothing_that_a_member_holds(
    kafka: KafkaCluster, stage: Stage
) -> None:
    """The outsider is refused, or the adoption is undone, and it gets everything only after the
    members have given it up."""
    async with stable_group(kafka) as group, trio.open_nursery() as nursery:
        got: list[int] = []
        ended_for_outsider = trio.Event()

        async def consume() -> None:
            got.extend(await partitions_of(group.outsider))
            ended_for_outsider.set()

        async def knock() -> None:
            nursery.start_soon(consume)

        ended = await group.at.adopt({stage: knock})
        if ended.stage is Stage.ADOPTED:
            assert await is_anchored(group)
            assert not got
        else:
            assert ended.stage is Stage.UNDONE
            assert group.at.stored is None
            # Refused between the lock and its round, it leaves an id that blocks the round.
            with trio.fail_after(30):
                await ended_for_outsider.wait()
            assert sorted(got) in ([0, 1, 2], [])
        nursery.cancel_scope.cancel()


async def partitions_of(client: GroupClient) -> list[int]:
    """Join like a consumer until there are partitions; none if the group refuses."""
    member_id = ""
    while True:
        joined = await client.join(member_id)
        member_id = joined.member_id if joined.error_code != 25 else ""
        if joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            return []
        if joined.error_code:
            continue
        everything = {member_id: {"numbers": range(3)}}
        leads = joined.leader == member_id
        assert not leads or len(joined.members) == 1, "it leads members of ours"
        synced = await client.sync(
            joined, everything if leads else None, protocol=joined.protocol_name or ""
        )
        if not synced.error_code:
            _version, given = decode_assignment(synced.assignment)
            numbers = [n for partition in given.assigned_partitions for n in partition.partitions]
            if numbers:
                return numbers
            await until_answered(partial(client.beat, joined), lambda answer: answer.error_code)


@with_new_protocol()
@pytest.mark.parametrize("stage", CHANGING)
async def test_a_native_outsider_gets_nothing(kafka: KafkaCluster, stage: Stage) -> None:
    async with stable_group(kafka) as group:
        answers = []

        async def knock() -> None:
            answers.append(await group.outsider.native("n"))

        ended = await group.at.adopt({stage: knock})
        (answer,) = answers
        if stage in (Stage.IMPERSONATING, Stage.REJOINING) and not answer.error_code:
            # It came before the leader's member had rejoined: an ordinary upgrade of the group.
            assert ended.stage is Stage.UNDONE
            assert answer.assignment is None or not answer.assignment.topic_partitions
        else:
            assert answer.error_code in (
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.UNKNOWN_SERVER_ERROR,
            )


@pytest.mark.parametrize("stage", CHANGING)
async def test_a_kill_leaves_the_old_way_or_the_new_one(kafka: KafkaCluster, stage: Stage) -> None:
    """The next process decides from its log and the group in the cluster."""
    async with stable_group(kafka) as group:
        await group.at.killed_at(stage)
        assert group.at.stored is not None
        ended = await group.at.adopt()
        if stage in LOCKED:
            assert ended.stage is Stage.ADOPTED, ended.reason
            assert await is_anchored(group)
        else:
            assert ended.stage is Stage.UNDONE
            assert not (await group.outsider.describe()).members
        assert group.at.stored is None
