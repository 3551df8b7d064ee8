"""The embedded cluster: its start, its address, and its death."""

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
    return {int(pid) for children in lists for pid in children.read_text().split()}


async def test_it_has_three_brokers_and_a_topic_with_the_requested_partitions() -> None:
    """An auto-created topic would always have four."""
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
    assert children() <= before


async def test_its_death_is_an_error_with_its_exit_status() -> None:
    """Malformed frames abort it, and the demo must not hang."""
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


async def test_a_failed_start_has_a_reason() -> None:
    """The reason contains the child's stderr."""
    with trio.fail_after(LIMIT_S):
        with pytest.RaisesGroup(
            pytest.RaisesExc(DemoError, match=r"died \(SIGABRT: .*Assertion"),
            flatten_subgroups=True,
        ):
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(mock_cluster.run, topic="t", partitions=-1))
