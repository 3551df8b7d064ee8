"""Commits of hosted groups: the gateway checks them, the cluster stores them.

The upstream is a fake broker that stores when the test allows it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
import trio
import trio.testing

from gateway.data_path.upstream import Upstream
from gateway.hosting import call_stages
from gateway.hosting.calls import Outcome
from gateway.hosting.identity import INSTANCE_ID
from gateway.hosting.recall import FENCED
from gateway.observers.counts import AnswerCounts
from gateway.quotas.shares import ShareRule
from gateway.requests.commits import CommitApis
from gateway.requests.coordinators import Coordinators
from gateway.state_log.memory import MemoryLog
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kafka_codecs.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from kafka_codecs.txn_offset_commit import (
    TxnOffsetCommitRequest,
)
from tests.support.commits import codes_of, commit_of, transactional_commit_of
from tests.support.group_client import GroupClient, given_to
from tests.support.hosted_groups import hosted_groups, lone_request
from tests.support.offset_broker import OffsetBroker
from tests.support.offset_stage import OffsetStage, offset_stage
from tests.support.until import until_answered


async def partitions_given(client: GroupClient, member_id: str, epoch: int) -> set[int]:
    """Send heartbeats until the assignment changes."""
    return given_to(await until_answered(lambda: client.native(member_id, epoch), given_to))


@pytest.mark.parametrize("version", [2, 6, 8])
async def test_the_cluster_receives_commits_of_the_anchor(version: int) -> None:
    """The anchor is the group's only member there. Before v7 a commit could not name it."""
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        member = {"member_id": joined.member_id, "epoch": joined.generation_id}
        stored = await stage.client.commit({1: 5}, **member, version=version)  # type: ignore[arg-type]
        assert stored == {1: 0}
        (seen,) = stage.broker.commits
        assert isinstance(seen, OffsetCommitRequest)
        held = stage.broker.coordinator.group("g")
        assert seen.generation_id_or_member_epoch == held.generation
        assert (seen.member_id, seen.group_instance_id) == (held.member_id, INSTANCE_ID)
        assert seen.group_id == "g"
        assert stage.broker.offsets == {1: 5}


async def test_a_refused_commit_does_not_reach_the_cluster() -> None:
    """The engine checks it first."""
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        stale = await stage.client.commit({1: 5}, member_id=joined.member_id, epoch=99, version=8)
        assert stale == {1: ErrorCode.ILLEGAL_GENERATION}
        assert stage.broker.commits == []


async def test_a_commit_that_is_not_accepted_at_once_makes_no_group() -> None:
    """Its client may have gone before it is answered, and the group would not be forgotten."""
    upstream = cast(Upstream, SimpleNamespace(version_for=lambda *_: 8, number=1))
    async with hosted_groups() as groups:
        coordinators = Coordinators(groups.cluster, ShareRule())
        apis = CommitApis(groups.table, coordinators, groups.offsets, AnswerCounts())
        message = commit_of({"foo": {0: 5}})
        request = replace(lone_request(message, 8), upstream=upstream)
        assert apis.begin(request, message, b"") is None
        assert not groups.running


async def test_a_commit_of_recreated_and_other_topics_stores_the_others() -> None:
    """DEV D35: the member's offsets are those of the deleted topic. If the answer for the others is
    lost, all are retried."""
    broker = OffsetBroker(topic_id=UUID(int=1), other_topics={"letters": UUID(int=2)})
    log, topics = MemoryLog(), ("letters", "numbers")
    async with offset_stage(broker, state_log=log) as before:
        joined = await before.client.native("n", topics=topics)
    broker.other_topics["letters"] = UUID(int=3)
    offsets = {name: {0: 5} for name in topics}
    commit = commit_of(offsets, member_id="n", epoch=joined.member_epoch)
    async with offset_stage(broker, state_log=log) as stage:
        ask = stage.client.connection.ask
        gone = {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert codes_of(await ask(commit, 9)) == {"letters": gone, "numbers": {0: 0}}
        (stored,) = broker.commits
        assert [topic.name for topic in stored.topics] == ["numbers"]
        broker.loses_commits = True
        loading = {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert codes_of(await ask(commit, 9)) == {"letters": loading, "numbers": loading}


async def test_an_error_of_the_cluster_is_passed_on() -> None:
    """After NOT_COORDINATOR the client looks for the coordinator again."""
    async with offset_stage() as stage:
        stage.broker.commit_error = ErrorCode.NOT_COORDINATOR
        assert await stage.client.commit({1: 5}) == {1: ErrorCode.NOT_COORDINATOR}


async def leave_on_a_new_connection(stage: OffsetStage, member_id: str) -> None:
    """Have a native member leave while its commit is under way. On an older connection it would
    count as late (DEV D25)."""
    async with stage.another_client() as client:
        assert (await client.native(member_id, -1)).error_code == 0


async def test_partitions_do_not_move_during_a_commit() -> None:
    """A new owner could start before that commit. They move after the answer."""
    async with offset_stage() as stage, stage.another_client() as other:
        joined = await other.native("n")
        stage.broker.gate = trio.Event()
        async with trio.open_nursery() as nursery:

            async def commit() -> None:
                stored = await other.commit({0: 7}, member_id="n", epoch=joined.member_epoch)
                assert stored == {0: 0}

            nursery.start_soon(commit)
            await stage.broker.asked.wait()
            await leave_on_a_new_connection(stage, "n")
            second = await stage.client.native("m")
            assert given_to(second) == {1, 2}
            stage.broker.gate.set()
        assert await partitions_given(stage.client, "m", second.member_epoch) == {0, 1, 2}
        assert stage.broker.offsets == {0: 7}


async def test_a_commit_ends_although_its_client_disconnected() -> None:
    """The client disconnects while the upstream is silent, and the answer arrives later."""
    async with offset_stage() as stage:
        stage.broker.gate = trio.Event()
        async with stage.another_client() as leaving:
            joined = await leaving.native("n")
            everything = dict.fromkeys(range(3), 7)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(
                    partial(leaving.commit, everything, member_id="n", epoch=joined.member_epoch)
                )
                await stage.broker.asked.wait()
                nursery.cancel_scope.cancel()
        await leave_on_a_new_connection(stage, "n")
        second = await stage.client.native("m")
        assert given_to(second) == set()
        stage.broker.gate.set()
        given = await partitions_given(stage.client, "m", second.member_epoch)
        assert given == {0, 1, 2}
        assert stage.broker.offsets == everything


async def test_a_members_commits_on_two_connections_are_stored_in_order() -> None:
    """The first connection may be dead without the gateway knowing."""
    async with offset_stage() as stage:
        joined = await stage.client.native("n")
        member: dict[str, Any] = {"member_id": "n", "epoch": joined.member_epoch}
        stage.broker.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(stage.client.commit, {0: 5}, **member))
            await stage.broker.asked.wait()
            async with stage.another_client() as later, trio.open_nursery() as on_second:
                on_second.start_soon(partial(later.commit, {0: 6}, **member))
                await trio.testing.wait_all_tasks_blocked(0.1)
                assert len(stage.broker.commits) == 1
                stage.broker.gate.set()
        assert len(stage.broker.commits) == 2
        assert stage.broker.offsets == {0: 6}


async def test_a_lost_answer_holds_the_partitions_until_the_anchor_is_replaced() -> None:
    """The cluster may store the commit at any later time. Until it no longer can, no client commits
    or fetches these partitions."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0,))
    fetch = OffsetFetchRequest(group_id="g", topics=(topic,))
    async with offset_stage() as stage:
        client = stage.client
        member = {"member_id": "n", "epoch": (await client.native("n")).member_epoch}
        before = stage.broker.coordinator.group("g").member_id
        stage.broker.join_gate = trio.Event()
        stage.broker.loses_commits = True
        async with stage.another_client() as cut_off:
            first_codes = await cut_off.commit({0: 7}, **member)  # type: ignore[arg-type]
            assert first_codes == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        stage.broker.loses_commits = False
        for version in (1, 5):
            refused: OffsetFetchResponse = await client.connection.ask(fetch, version)
            codes = {p.error_code for topic in refused.topics for p in topic.partitions}
            assert codes | {refused.error_code} - {0} == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        async with stage.another_client() as next_connection:
            commit = partial(next_connection.commit, {0: 8}, **member)  # type: ignore[arg-type]
            assert await commit() == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            stage.broker.join_gate.set()
            await until_answered(
                lambda: client.connection.ask(fetch, 5), lambda fetched: not fetched.error_code
            )
            assert await commit() == {0: 0}
        lost, stored = stage.broker.commits
        assert isinstance(lost, OffsetCommitRequest)
        assert isinstance(stored, OffsetCommitRequest)
        assert lost.member_id == before
        assert stage.broker.coordinator.check_commit(lost) == ErrorCode.FENCED_INSTANCE_ID
        assert stored.member_id == stage.broker.coordinator.group("g").member_id


async def test_a_reset_in_flight_ends_before_a_member_starts_there() -> None:
    """The group was empty at the check, and the cluster stores the reset late. It would undo the
    commit of a member that joined meanwhile."""
    topic = OffsetFetchRequestTopic(name="numbers", partition_indexes=(0,))
    fetch = OffsetFetchRequest(group_id="g", topics=(topic,))
    async with offset_stage() as stage, stage.another_client() as admin:
        joined = await stage.client.enter()
        await stage.client.leave(joined.member_id)
        stage.broker.gate = trio.Event()
        async with trio.open_nursery() as nursery:

            async def reset() -> None:
                assert await admin.commit({0: 0}, version=8) == {0: 0}

            nursery.start_soon(reset)
            await stage.broker.asked.wait()
            member: dict[str, Any] = {
                "member_id": "n",
                "epoch": (await stage.client.native("n")).member_epoch,
            }
            too_early: OffsetFetchResponse = await stage.client.connection.ask(fetch, 5)
            assert too_early.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            refused = await stage.client.commit({0: 60}, **member)
            assert refused == {0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
            stage.broker.gate.set()
        assert (await stage.client.fetch_offsets(partitions=1)) == {0: 0}
        assert await stage.client.commit({0: 60}, **member) == {0: 0}
        assert stage.broker.offsets == {0: 60}


@pytest.mark.parametrize("loss", ["removed", "replaced", "rebalanced"])
async def test_an_error_about_the_anchor_is_repaired(loss: str) -> None:
    """The commit is sent again for the new anchor, and the client only waits longer."""
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        held = stage.broker.coordinator.group("g")
        match loss:
            case "removed":
                held.remove_member()
            case "replaced":  # by a late join of the gateway
                held.member_id = "groupferry-late"
            case _:
                held.generation += 1
        member = {"member_id": joined.member_id, "epoch": joined.generation_id}
        assert await stage.client.commit({1: 5}, **member, version=8) == {1: 0}  # type: ignore[arg-type]
        assert len(stage.broker.commits) == 2
        assert stage.broker.offsets == {1: 5}


async def test_a_commit_waits_for_an_anchor_that_cannot_be_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a limited time the client must retry, and then succeeds."""
    monkeypatch.setattr(call_stages, "MEMBER_WAIT_MS", 100)
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        stage.broker.join_gate = trio.Event()
        stage.broker.coordinator.group("g").remove_member()
        member = {"member_id": joined.member_id, "epoch": joined.generation_id}
        for _ in range(2):
            refused = await stage.client.commit({1: 5}, **member, version=8)  # type: ignore[arg-type]
            assert refused == {1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert (await stage.client.beat(joined)).error_code == 0
        stage.broker.join_gate.set()
        commit = partial(stage.client.commit, {1: 5}, **member, version=8)  # type: ignore[arg-type]
        await until_answered(commit, {1: 0}.__eq__)
        assert stage.broker.offsets == {1: 5}


async def test_offsets_of_an_empty_group_are_reset_under_its_anchor() -> None:
    """The lingering anchor would make the cluster refuse an admin's commit. Without an anchor the
    commit is forwarded unchanged."""
    async with offset_stage() as stage:
        assert await stage.client.commit({0: 1}, version=8) == {0: 0}
        joined = await stage.client.enter()
        await stage.client.leave(joined.member_id)
        assert await stage.client.commit({0: 2}, version=8) == {0: 0}
        plain, under_anchor = stage.broker.commits
        assert isinstance(plain, OffsetCommitRequest)
        assert isinstance(under_anchor, OffsetCommitRequest)
        assert (plain.member_id, plain.group_instance_id) == ("", None)
        assert under_anchor.member_id == stage.broker.coordinator.group("g").member_id


@asynccontextmanager
async def after_a_restart() -> AsyncIterator[OffsetStage]:
    """A gateway with the log of one that was killed and left its anchor in an empty group."""
    broker, log = OffsetBroker(), MemoryLog()
    async with offset_stage(broker, state_log=log) as before:
        joined = await before.client.enter()
        await before.client.leave(joined.member_id)
    assert broker.coordinator.group("g").member_id
    async with offset_stage(broker, state_log=log) as stage:
        yield stage


async def test_offsets_are_reset_under_a_predecessors_anchor() -> None:
    """The group is empty although the cluster shows the old anchor. The reset is stored under the
    new anchor that replaces it."""
    async with after_a_restart() as stage:
        left_behind = stage.broker.coordinator.group("g").member_id
        # Tools fetch the offsets first, so the gateway already knows the group's state.
        await stage.client.fetch_offsets()
        assert await stage.client.commit({0: 2}, version=8) == {0: 0}
        (stored,) = stage.broker.commits
        assert isinstance(stored, OffsetCommitRequest)
        assert stored.member_id == stage.broker.coordinator.group("g").member_id != left_behind


async def test_offsets_are_deleted_after_a_predecessors_anchor_left() -> None:
    """The gateway takes the anchor and lets it leave, because the cluster deletes no offsets of a
    group with a member."""
    async with after_a_restart() as stage:
        ask = stage.client.connection.ask
        for _ in range(2):
            assert codes(await ask(deletion("numbers"), 0)) == {"numbers": 0}
        assert stage.broker.coordinator.group("g").member_id == ""
        assert stage.broker.coordinator.group("g").joins == 3, "taken once more, by two joins"


async def test_a_transaction_is_checked_for_its_member_and_stored_for_the_anchor() -> None:
    """Check and hold are those of other commits. The transaction remains the client's."""
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        ask = stage.client.connection.ask
        member_id, generation = joined.member_id, joined.generation_id
        commit = partial(transactional_commit_of, {"numbers": {2: 4}})
        stale = await ask(commit(member_id=member_id, generation=99), 3)
        assert codes_of(stale) == {"numbers": {2: ErrorCode.ILLEGAL_GENERATION}}
        assert stage.broker.commits == []
        stored = await ask(commit(member_id=member_id, generation=generation), 3)
        assert codes_of(stored) == {"numbers": {2: 0}}
        (seen,) = stage.broker.commits
        assert isinstance(seen, TxnOffsetCommitRequest)
        assert (seen.transactional_id, seen.producer_id, seen.producer_epoch) == ("t", 1, 2)
        held = stage.broker.coordinator.group("g")
        assert (seen.generation_id, seen.member_id) == (held.generation, held.member_id)
        assert seen.group_instance_id == INSTANCE_ID
        await stage.client.leave(member_id)
        assert codes_of(await ask(commit(), 3)) == {"numbers": {2: 0}}


def deletion(*names: str, index: int = 0) -> OffsetDeleteRequest:
    """An OffsetDelete of one partition of each topic."""
    partition = OffsetDeleteRequestPartition(partition_index=index)
    topics = tuple(OffsetDeleteRequestTopic(name=name, partitions=(partition,)) for name in names)
    return OffsetDeleteRequest(group_id="g", topics=topics)


def codes(answer: OffsetDeleteResponse) -> dict[str, int]:
    """The error codes of the answer, by topic."""
    assert answer.error_code == 0
    return {topic.name: topic.partitions[0].error_code for topic in answer.topics}


async def test_a_group_without_commits_has_no_offsets_to_delete() -> None:
    """The cluster does not know the group, but the gateway does, so this is no error."""
    async with offset_stage() as stage:
        stage.broker.knows_group = False
        ask = stage.client.connection.ask
        answer: OffsetDeleteResponse = await ask(deletion("numbers"), 0)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        joined = await stage.client.enter()
        subscribed = {
            "numbers": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            "other": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert codes(await ask(deletion("numbers", "other"), 0)) == subscribed
        no_partition = {"numbers": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert codes(await ask(deletion("numbers", index=99), 0)) == no_partition
        await stage.client.leave(joined.member_id)
        assert codes(await ask(deletion("numbers"), 0)) == {"numbers": 0}


async def test_offsets_are_deleted_once_the_group_is_empty() -> None:
    """The cluster refuses while the anchor is a member, so the anchor leaves first. Partitions that
    do not exist are answered immediately."""
    async with offset_stage() as stage:
        joined = await stage.client.enter()
        ask = stage.client.connection.ask
        answered = codes(await ask(deletion("numbers", "other"), 0))
        assert answered == {
            "numbers": ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            "other": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert stage.broker.deleted == []
        await stage.client.leave(joined.member_id)
        assert codes(await ask(deletion("numbers"), 0)) == {"numbers": 0}
        assert stage.broker.deleted == [("numbers",)]
        assert stage.broker.coordinator.group("g").member_id == ""


@pytest.mark.parametrize("may_answer", [True, False])
async def test_a_refusal_in_a_move_leaves_only_while_the_log_is_ours(*, may_answer: bool) -> None:
    """Another gateway may continue with the move (found by seed 72 of the simulator)."""
    groups = SimpleNamespace(drivers=SimpleNamespace(may_answer_for=lambda _group_id: may_answer))
    api = SimpleNamespace(_groups=groups)
    message = commit_of({"t": {0: 1}}, member_id="m", epoch=1)
    request = lone_request(message, 9)
    outcome = Outcome(refused=FENCED)
    response = await CommitApis._response(cast(CommitApis, api), request, message, outcome, None)
    expected = ErrorCode.STALE_MEMBER_EPOCH if may_answer else ErrorCode.NOT_COORDINATOR
    assert codes_of(cast(OffsetCommitResponse, response)) == {"t": {0: expected}}
