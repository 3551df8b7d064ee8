"""One group's task and the topics it needs: asked about by name, matched by expressions."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NoReturn

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.errors import InvariantError
from coordinator.events import (
    OffsetCommitEnded,
    RegexesResolved,
)
from gateway.cluster.errors import UpstreamError
from gateway.cluster.topic_names import TopicNames
from gateway.cluster.topics import ClusterTopic
from gateway.groups.regex_resolver import RegexResolver
from kafka_codecs.error_codes import ErrorCode
from tests.support.broken_engine import break_engine
from tests.support.hosted_groups import GROUP, hosted_groups
from tests.support.until import until, until_logged

# -- names ---------------------------------------------------------------------------------------


async def test_the_cluster_is_asked_about_new_names_only(autojump_clock: MockClock) -> None:
    """Heartbeats, commits and rejoins name what is known."""
    async with hosted_groups() as groups:
        groups.cluster.partition_counts = {"foo": 3, "bar": 1}
        joined = await groups.lone_classic_member()
        await groups.beat(joined.member_id, joined.generation)
        token, _ = await groups.commit(joined.member_id, joined.generation, {"foo": [0]})
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        assert groups.cluster.topic_questions == [frozenset({"foo"})]
        token, _ = await groups.commit(joined.member_id, joined.generation, {"bar": [0]})
        groups.registry.end_commit(GROUP, OffsetCommitEnded(commit=token))
        await groups.join(joined.member_id, topics=["foo", "bar", "missing"])
        assert groups.cluster.topic_questions[1:] == [frozenset({"bar"}), frozenset({"missing"})]


async def test_topics_of_refused_requests_are_forgotten(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever names many that do not exist takes no room from the group's members."""
    monkeypatch.setattr("gateway.groups.topics_image.NAMES_MAX", 3)
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        made_up = [f"made-up-{n}" for n in range(4)]
        refused = await groups.join("m", topics=made_up, session_timeout_ms=1)
        assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT
        asked_for: list[set[str]] = []
        topics_for = groups.cluster.topics_for

        async def noting(names: Iterable[str]) -> Mapping[str, ClusterTopic]:
            asked_for.append(set(names))
            return await topics_for(names)

        monkeypatch.setattr(groups.cluster, "topics_for", noting)
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE
        assert asked_for == [{"foo"}]


async def test_unknown_topics_refuse_the_request_alone(autojump_clock: MockClock) -> None:
    """The cluster does not answer: whoever brings a new name tries again, the others go on."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        groups.cluster.failure = UpstreamError("nobody listens")
        with capture_logs() as lines:
            refused = await groups.join("m", topics=["new"], version=3)
        assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (lines[-2]["event"], lines[-2]["reason"]) == ("topics_unknown", "nobody listens")
        assert "nobody listens" not in refused.why  # an address, perhaps, that no client may learn
        _, verdict = await groups.commit("n", joined.member_epoch, {"new": [0]})
        assert verdict.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await groups.native("n", joined.member_epoch)).error is ErrorCode.NONE
        groups.cluster.failure = None
        assert (await groups.commit("n", joined.member_epoch, {"new": [0]}))[
            1
        ].error is ErrorCode.NONE


async def test_a_change_of_topics_reaches_the_members(autojump_clock: MockClock) -> None:
    """A new partition bumps the group epoch at the next heartbeat."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        groups.cluster.partition_counts["foo"] = 4
        groups.cluster.change()
        await trio.sleep(2)
        reply = await groups.native("n", joined.member_epoch)
        assert groups.told("group_epoch_bumped")[-1]["cause"] == "topics_changed"
        assert reply.assignment is not None
        assert len(reply.assignment) == 4


# -- regular expressions -------------------------------------------------------------------------


async def test_a_regex_is_resolved_beside_the_group() -> None:
    """The heartbeat that brings it is answered at once, a later one has the partitions."""
    async with hosted_groups() as groups:
        joined = await groups.native("n", regex="f.*")
        assert (joined.member_epoch, joined.assignment) == (1, frozenset())
        assert (await groups.heard("regex_resolved"))["added"] == ["foo"]
        reply = await groups.native("n", 1)
        assert reply.member_epoch == 2
        assert reply.assignment is not None
        assert len(reply.assignment) == 3


async def test_a_slow_resolution_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the group nor its end."""
    async with hosted_groups() as groups:
        monkeypatch.setattr(groups.cluster, "ask_names", trio.sleep_forever)
        groups.cluster.names = TopicNames(groups.cluster.ask_names, interval_s=5)
        await groups.native("n", regex="f.*")
        assert (await groups.native("other")).member_epoch == 2
        await groups.native("n", -1)
        await groups.native("other", -1)
        await until(lambda: not groups.running)


async def test_a_resolution_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster does not answer, or we ourselves have a bug: the group goes on."""
    async with hosted_groups() as groups:
        monkeypatch.setattr(
            groups.cluster, "names", TopicNames(groups.cluster.ask_names, interval_s=0)
        )
        groups.cluster.failure = UpstreamError("nobody listens")
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await until_logged(lines, "regexes_unresolved")
            groups.cluster.failure = None
            monkeypatch.setattr(RegexResolver, "resolve", None)
            await groups.native("n", 1)
            await until_logged(lines, "regexes_unresolved", times=2)
            monkeypatch.undo()
            await groups.native("n", 1)
            await groups.heard("regex_resolved")
        assert [line["event"] for line in lines].count("regexes_unresolved") == 2


async def test_matched_topics_that_cannot_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the gateway follows, say: nothing is resolved, and the group goes on."""
    async with hosted_groups() as groups:

        async def too_many(names: Iterable[str]) -> NoReturn:
            raise UpstreamError("more than 10000 topics are asked for")

        monkeypatch.setattr(groups.cluster, "topics_for", too_many)
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await until_logged(lines, "regexes_unresolved")
        (line,) = [line for line in lines if line["event"] == "regexes_unresolved"]
        assert line["reason"] == "more than 10000 topics are asked for"
        assert (await groups.native("n", 1)).member_epoch == 1


async def test_a_resolution_outlives_a_failure_of_the_log() -> None:
    """It has happened all the same."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(groups.native, "n", regex="f.*"))
            await groups.log.writing.wait()
            groups.log.gate.set()
        groups.log.is_failing = True
        with capture_logs() as lines:
            await until_logged(lines, "state_log_failed")
        assert groups.told("regex_resolved") == []
        groups.log.is_failing = False
        await groups.heard("regex_resolved")


async def test_a_reload_forgets_what_was_being_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group in the log waits for nothing; the next heartbeat asks again."""
    async with hosted_groups() as groups:
        break_engine(monkeypatch, RegexesResolved, InvariantError("any"))
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await until_logged(lines, "group_failed")
        await wait_all_tasks_blocked()
        assert groups.told("regex_resolved") == []
        await groups.native("n", 1)
        await groups.heard("regex_resolved")


async def test_the_names_are_followed_while_a_regex_is_in_use() -> None:
    """A group without one wants no look at all topics."""
    async with hosted_groups() as groups:
        await groups.native("m")
        await wait_all_tasks_blocked()
        assert groups.cluster.names.version == 0
        await groups.native("n", regex="f.*")
        await groups.heard("regex_resolved")
        assert groups.cluster.names.version > 0
