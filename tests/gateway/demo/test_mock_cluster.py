"""The embedded cluster: started, announced, missed when it dies."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka.admin import AdminClient

from gateway.demo import mock_cluster
from gateway.demo.errors import DemoError

LIMIT_S = 30


def children() -> set[int]:
    """Return the ids of this process's children, whichever thread started them."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for each in lists for pid in each.read_text().split()}


async def test_it_has_three_brokers_and_a_topic_with_exactly_the_partitions_asked_for() -> None:
    """An auto-created topic would have four, whatever was asked for."""
    before = children()
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            bootstrap: str = await nursery.start(
                partial(mock_cluster.run, topic="numbers", partitions=7)
            )
            admin = AdminClient({"bootstrap.servers": bootstrap})
            metadata = await trio.to_thread.run_sync(lambda: admin.list_topics(timeout=LIMIT_S))
            nursery.cancel_scope.cancel()
    assert len(metadata.brokers) == mock_cluster.BROKERS
    assert len(metadata.topics["numbers"].partitions) == 7
    assert children() == before


async def test_its_death_is_an_error_that_says_how_it_died() -> None:
    """Hostile frames abort it; the demo must not hang then."""
    before = children()
    with trio.fail_after(LIMIT_S):
        with pytest.RaisesGroup(
            pytest.RaisesExc(DemoError, match=r"the embedded cluster died \(SIGABRT\)"),
            flatten_subgroups=True,
        ):
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(mock_cluster.run, topic="t", partitions=1))
                (cluster,) = children() - before
                os.kill(cluster, signal.SIGABRT)


async def test_it_says_why_it_did_not_start() -> None:
    """The child's complaint is part of the reason."""
    with trio.fail_after(LIMIT_S):
        with pytest.RaisesGroup(
            pytest.RaisesExc(DemoError, match=r"died \(SIGABRT: .*Assertion"),
            flatten_subgroups=True,
        ):
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(mock_cluster.run, topic="t", partitions=-1))
