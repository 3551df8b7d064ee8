"""The work of one group, and the topics that it needs, by name or regular expression."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import NoReturn

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from coordinator.interface.errors import InvariantError
from coordinator.interface.events import (
    OffsetCommitEnded,
    RegexesResolved,
)
from gateway.cluster.errors import UpstreamError
from gateway.cluster.topic_names import TopicNames
from gateway.cluster.topics import ClusterTopic
from gateway.groups.regex_resolver import RegexResolver
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs.error_codes import ErrorCode
from tests.support.broken_engine import break_engine
from tests.support.hosted_groups import hosted_groups
from tests.support.until import until, until_logged

# -- names ---------------------------------------------------------------------------------------


async def test_the_cluster_is_asked_only_about_new_names(autojump_clock: MockClock) -> None:
    """Heartbeats, commits and rejoins name known topics."""
    async with hosted_groups() as groups:
        groups.cluster.partition_counts = {"foo": 3, "bar": 1}
        joined = await groups.lone_classic_member()
        await groups.beat(joined.member_id, joined.generation)
        token, _ = await groups.commit(joined.member_id, joined.generation, {"foo": [0]})
        groups.end_commit(OffsetCommitEnded(commit=token))
        assert groups.cluster.topic_questions == [frozenset({"foo"})]
        token, _ = await groups.commit(joined.member_id, joined.generation, {"bar": [0]})
        groups.end_commit(OffsetCommitEnded(commit=token))
        await groups.join(joined.member_id, topics=["foo", "bar", "missing"])
        assert groups.cluster.topic_questions[1:] == [frozenset({"bar"}), frozenset({"missing"})]


async def test_topics_that_no_member_needs_are_forgotten(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that names many nonexistent topics takes no room from the group's members."""
    monkeypatch.setattr("gateway.groups.topics_image.NAMES_MAX", 3)
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        made_up = {f"made-up-{n}": [0] for n in range(4)}
        token, _ = await groups.commit("n", joined.member_epoch, made_up)
        groups.end_commit(OffsetCommitEnded(commit=token))
        asked_for: list[set[str]] = []
        topics_for = groups.cluster.topics_for

        async def noting(
            names: Iterable[str], owner: QuotaKey | None = None
        ) -> Mapping[str, ClusterTopic]:
            asked_for.append(set(names))
            return await topics_for(names, owner)

        monkeypatch.setattr(groups.cluster, "topics_for", noting)
        await groups.commit("n", joined.member_epoch, {"another": [0]})
        assert asked_for == [{"foo", "another"}]


async def test_a_refused_request_brings_no_topics(autojump_clock: MockClock) -> None:
    """The engine refuses it before the cluster is asked."""
    async with hosted_groups() as groups:
        await groups.native("n")
        groups.cluster.topic_questions.clear()
        refused = await groups.join("m", topics=["new"], session_timeout_ms=1)
        assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT
        assert groups.cluster.topic_questions == []


async def test_unknown_topics_fail_only_their_request(autojump_clock: MockClock) -> None:
    """The cluster does not answer. Clients with new names retry, and the others continue."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        groups.cluster.failure = UpstreamError("nobody listens")
        with capture_logs() as lines:
            refused = await groups.join("m", topics=["new"], version=3)
        assert refused.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (lines[-2]["event"], lines[-2]["reason"]) == ("topics_unknown", "nobody listens")
        assert (
            "nobody listens" not in refused.reason
        )  # perhaps an address, which no client may learn
        _, decision = await groups.commit("n", joined.member_epoch, {"new": [0]})
        assert decision.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
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
        assert groups.events_named("group_epoch_bumped")[-1]["cause"] == "topics_changed"
        assert reply.assignment is not None
        assert len(reply.assignment) == 4


async def test_a_deleted_topic_is_named_in_an_event(autojump_clock: MockClock) -> None:
    """Its partitions appear in no later event."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        del groups.cluster.partition_counts["foo"]
        groups.cluster.change()
        await trio.sleep(2)
        await groups.native("n", joined.member_epoch)
        assert [event["topics"] for event in groups.events_named("topics_deleted")] == [["foo"]]


async def test_the_partitions_that_a_member_states_are_an_event(autojump_clock: MockClock) -> None:
    """The event precedes the others of the same heartbeat."""
    async with hosted_groups() as groups:
        joined = await groups.native("n")
        await groups.native("n", joined.member_epoch, owned={"foo": (0, 1, 2)})
        stated = [event["partitions"] for event in groups.events_named("partitions_stated")]
        assert stated == [{}, {"foo": [0, 1, 2]}]
        assert groups.events[0].name == "partitions_stated"


# -- regular expressions -------------------------------------------------------------------------


async def test_a_regex_is_resolved_in_the_background() -> None:
    """The heartbeat that adds it is answered immediately, and a later one returns the
    partitions."""
    async with hosted_groups() as groups:
        joined = await groups.native("n", regex="f.*")
        assert (joined.member_epoch, joined.assignment) == (1, frozenset())
        assert (await groups.wait_for_event("regex_resolved"))["added"] == ["foo"]
        reply = await groups.native("n", 1)
        assert reply.member_epoch == 2
        assert reply.assignment is not None
        assert len(reply.assignment) == 3


async def test_a_slow_resolution_blocks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the group nor its end waits for it."""
    async with hosted_groups() as groups:
        monkeypatch.setattr(groups.cluster, "ask_names", trio.sleep_forever)
        groups.cluster.names = TopicNames(groups.cluster.ask_names, interval_s=5)
        await groups.native("n", regex="f.*")
        assert (await groups.native("other")).member_epoch == 2
        await groups.native("n", -1)
        await groups.native("other", -1)
        await until(lambda: not groups.running)


async def test_a_failed_resolution_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster does not answer, or an internal error occurs. The group continues."""
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
            await groups.wait_for_event("regex_resolved")
        assert [line["event"] for line in lines].count("regexes_unresolved") == 2


async def test_matched_topics_that_cannot_be_looked_up_fail_the_resolution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The topics may exceed the gateway's limit. The group continues."""
    async with hosted_groups() as groups:

        async def too_many(*_asked: object) -> NoReturn:
            raise UpstreamError("more than 10000 topics are asked for")

        monkeypatch.setattr(groups.cluster, "topics_for", too_many)
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await until_logged(lines, "regexes_unresolved")
        (line,) = [line for line in lines if line["event"] == "regexes_unresolved"]
        assert line["reason"] == "more than 10000 topics are asked for"
        assert (await groups.native("n", 1)).member_epoch == 1


async def test_a_resolution_survives_a_failure_of_the_log() -> None:
    """Its result is not lost."""
    async with hosted_groups() as groups:
        groups.log.gate = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(groups.native, "n", regex="f.*"))
            await groups.log.writing.wait()
            groups.log.gate.set()
        groups.log.is_failing = True
        with capture_logs() as lines:
            await until_logged(lines, "state_log_failed")
        assert groups.events_named("regex_resolved") == []
        groups.log.is_failing = False
        await groups.wait_for_event("regex_resolved")


async def test_a_reload_forgets_a_running_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loaded group does not wait for it. The next heartbeat starts another."""
    async with hosted_groups() as groups:
        break_engine(monkeypatch, RegexesResolved, InvariantError("any"))
        with capture_logs() as lines:
            await groups.native("n", regex="f.*")
            await until_logged(lines, "group_failed")
        await wait_all_tasks_blocked()
        assert groups.events_named("regex_resolved") == []
        await groups.native("n", 1)
        await groups.wait_for_event("regex_resolved")


async def test_all_topic_names_are_followed_only_for_a_regex() -> None:
    """A group without one does not need them."""
    async with hosted_groups() as groups:
        await groups.native("m")
        await wait_all_tasks_blocked()
        assert groups.cluster.names.version == 0
        await groups.native("n", regex="f.*")
        await groups.wait_for_event("regex_resolved")
        assert groups.cluster.names.version > 0


async def test_heartbeats_follow_topic_names_for_a_regex(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new topic that matches is noticed though nothing else happens."""
    wishes = 0

    def want(_names: TopicNames) -> None:
        nonlocal wishes
        wishes += 1

    async with hosted_groups() as groups:
        await groups.native("n", regex="f.*")
        await groups.wait_for_event("regex_resolved")
        epoch = (await groups.native("n", 1)).member_epoch
        await wait_all_tasks_blocked()
        monkeypatch.setattr(TopicNames, "want", want)
        await groups.native("n", epoch)
        assert wishes
