"""Resolution of regular expressions with the cluster's topic names."""

from typing import cast

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import wait_all_tasks_blocked

from coordinator.interface.events import RegexesResolved
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.groups import regex_resolver
from gateway.groups.regex_resolver import RegexResolver
from tests.support.hosted_groups import ScriptedCluster, every_topic


async def test_matches_have_the_version_of_the_names() -> None:
    """Internal topics match like any other. Matched topics are looked up before the group gets the
    result."""
    cluster = ScriptedCluster(foo=3, bar=1, __consumer_offsets=50)
    resolved = await RegexResolver(cluster, every_topic).resolve("g", {"f.*", "__.*", "none"})
    assert resolved == RegexesResolved(
        topics={
            "f.*": frozenset({"foo"}),
            "__.*": frozenset({"__consumer_offsets"}),
            "none": frozenset(),
        },
        version=cluster.names.version,
    )
    assert cluster.names.version > 0
    assert cluster.topic_questions == [frozenset({"foo", "__consumer_offsets"})]


async def test_a_silent_cluster_fails_the_resolution() -> None:
    """The group gets the failure, and the log has the reason."""
    cluster = ScriptedCluster(foo=3)
    cluster.failure = UpstreamError("nobody listens")
    with capture_logs() as lines:
        assert (await RegexResolver(cluster, every_topic).resolve("g", {"f.*"})).topics is None
    (line,) = lines
    assert (line["event"], line["group_id"], line["reason"]) == (
        "regexes_unresolved",
        "g",
        "nobody listens",
    )


async def test_the_broadest_regexes_beyond_the_limit_match_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log reports it once, and the others match as usual."""
    monkeypatch.setattr(regex_resolver, "MATCHED_TOPICS_MAX", 2)
    cluster = ScriptedCluster(foo=3, far=1, bar=1)
    resolver = RegexResolver(cluster, every_topic)
    with capture_logs() as lines:
        for _ in range(3):
            resolved = await resolver.resolve("g", {"f.*", ".*r", ".*"})
            assert resolved.topics == {
                "f.*": frozenset(),
                ".*r": frozenset({"far", "bar"}),
                ".*": frozenset(),
            }
    assert sorted((line["event"], line["regex"], line["topics"]) for line in lines) == [
        ("regex_too_broad", ".*", 3),
        ("regex_too_broad", "f.*", 2),
    ]


def test_the_reported_regexes_in_memory_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is forgotten is reported again."""
    monkeypatch.setattr(regex_resolver, "REPORTED_MAX", 2)
    resolver = RegexResolver(ScriptedCluster(), every_topic)
    with capture_logs() as lines:
        for regex in ("a", "b", "a", "c", "b"):
            resolver._report_too_broad("g", regex, 7, None)
    assert [line["regex"] for line in lines] == ["a", "b", "c", "b"]


async def test_a_resolution_can_be_awaited(nursery: trio.Nursery) -> None:
    """A later resolution of the same group may begin before an earlier one has ended."""
    resolver = RegexResolver(cast(Cluster, None), every_topic)
    waited: list[str] = []

    async def wait() -> None:
        await resolver.until_resolved("g")
        waited.append("g")

    await resolver.until_resolved("g")  # none is under way
    with resolver.under_way("other"), resolver.under_way("g"):
        later = resolver.under_way("g")
        later.__enter__()
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
    assert waited == []
    later.__exit__(None, None, None)
    await wait_all_tasks_blocked()
    assert waited == ["g"]
