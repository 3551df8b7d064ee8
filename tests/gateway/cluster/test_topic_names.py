"""The names of all topics are looked up on demand, at limited intervals."""

from collections.abc import Mapping
from uuid import UUID

import pytest
import trio
from trio.testing import MockClock

from gateway.cluster.errors import UpstreamError
from gateway.cluster.topic_names import SHARE_OF_TIME, TopicNames
from tests.support.group_values import topic_id

INTERVAL_S = 5


class Topics:
    """A cluster that counts its requests."""

    def __init__(self) -> None:
        self.names = ["foo"]
        self.looks = 0
        self.takes_s = 0.0
        self.failure: UpstreamError | None = None

    async def look(self) -> Mapping[UUID, str]:
        self.looks += 1
        await trio.sleep(self.takes_s)
        if self.failure is not None:
            raise self.failure
        return {topic_id(name): name for name in self.names}


@pytest.fixture
def topics() -> Topics:
    return Topics()


@pytest.fixture
def names(topics: Topics) -> TopicNames:
    return TopicNames(topics.look, interval_s=INTERVAL_S)


async def test_a_look_up_is_reused_for_a_while(
    autojump_clock: MockClock, topics: Topics, names: TopicNames
) -> None:
    """Callers meanwhile get the known names."""
    assert await names.get() == {topic_id("foo"): "foo"}
    topics.names.append("bar")
    await trio.sleep(INTERVAL_S - 0.1)
    assert set((await names.get()).values()) == {"foo"}
    await trio.sleep(0.1)
    assert set((await names.get()).values()) == {"foo", "bar"}
    assert topics.looks == 2


async def test_simultaneous_callers_share_a_look_up(
    autojump_clock: MockClock, topics: Topics, names: TopicNames
) -> None:
    """Only one look-up runs at a time."""
    topics.takes_s = 0.1
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(names.get)
    assert topics.looks == 1


async def test_a_large_cluster_is_asked_less_often(
    autojump_clock: MockClock, topics: Topics, names: TopicNames
) -> None:
    """Look-ups take only a small share of the time."""
    topics.takes_s = 2
    await names.get()
    await trio.sleep(2 * SHARE_OF_TIME - 0.1)
    await names.get()
    assert topics.looks == 1
    await trio.sleep(0.1)
    await names.get()
    assert topics.looks == 2


async def test_the_version_grows_when_a_name_appears(
    autojump_clock: MockClock, topics: Topics, names: TopicNames
) -> None:
    """A deleted name does not count. The version also grows across a restart."""
    assert names.version == 0
    versions = []
    for now in (["foo"], ["foo"], ["foo", "bar"], ["bar"], ["foo", "bar"]):
        topics.names = now
        await names.get()
        versions.append(names.version)
        await trio.sleep(INTERVAL_S)
    first, same, grown, gone, back = versions
    assert 0 < first == same < grown == gone < back
    restarted = TopicNames(topics.look, interval_s=INTERVAL_S)
    await restarted.get()
    assert restarted.version >= first


async def test_a_failure_is_reused_until_the_next_look_up(
    autojump_clock: MockClock, topics: Topics, names: TopicNames
) -> None:
    """Callers do not each ask a cluster that does not answer."""
    await names.get()
    await trio.sleep(INTERVAL_S)
    topics.failure = UpstreamError("nobody listens")
    for _ in range(2):
        with pytest.raises(UpstreamError, match="nobody listens"):
            await names.get()
    assert topics.looks == 2
    assert set(names.by_id.values()) == {"foo"}
    topics.failure = None
    await trio.sleep(INTERVAL_S)
    assert set((await names.get()).values()) == {"foo"}


async def test_look_ups_happen_only_on_demand(
    autojump_clock: MockClock, nursery: trio.Nursery, topics: Topics, names: TopicNames
) -> None:
    """Each demand causes one look-up, and simultaneous demands share it."""
    nursery.start_soon(names.run)
    await trio.sleep(100)
    assert topics.looks == 0
    for _ in range(3):
        names.want()
    await trio.sleep(100)
    assert topics.looks == 1
    topics.failure = UpstreamError("nobody listens")
    names.want()
    await trio.sleep(INTERVAL_S)
    topics.failure = None
    names.want()
    names.want()
    await trio.sleep(2 * INTERVAL_S)
    assert topics.looks == 3
    nursery.cancel_scope.cancel()
