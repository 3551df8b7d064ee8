"""Runs that end early. An end-to-end test covers a successful run with the real gateway."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from coordinator.interface.config import GroupConfig
from gateway.data_path.errors import ListenError
from gateway.demo.mock_cluster import embed_cluster
from gateway.demo.outcome import Options
from gateway.demo.run import Interrupted, run
from gateway.events.event import Listener
from tests.support.until import until

LIMIT_S = 60
OPTIONS = Options(consumers=2, partitions=3)


Children = Callable[[], set[int]]


@pytest.fixture
def children() -> Children:
    """The ids of this process's new children, from any thread."""

    def now() -> set[int]:
        lists = Path("/proc/self/task").glob("*/children")
        return {int(pid) for children in lists for pid in children.read_text().split()}

    before = now()
    return lambda: now() - before


async def no_gateway(
    upstream: str,
    group_config: GroupConfig,
    listener: Listener,
    *,
    task_status: trio.TaskStatus[str],
) -> None:
    """Fail like a gateway that cannot listen."""
    await trio.lowlevel.checkpoint()
    raise ListenError("port 19092 is in use")


class BareUpstream:
    """Replaces the gateway by the embedded cluster, which cannot describe groups. After its start
    it sends a signal to a process."""

    def __init__(
        self, number: signal.Signals, target: Callable[[], int], children: Children
    ) -> None:
        self._number = number
        self._target = target
        self._children = children
        self.seen: set[int] = set()

    async def __call__(
        self,
        upstream: str,
        group_config: GroupConfig,
        listener: Listener,
        *,
        task_status: trio.TaskStatus[str],
    ) -> None:
        """Run until cancelled."""
        task_status.started(upstream)
        await until(self._has_seen_all)
        os.kill(self._target(), self._number)
        await trio.sleep_forever()

    def _has_seen_all(self) -> bool:
        """The embedded cluster, the producer and the consumers."""
        self.seen |= self._children()
        return len(self.seen) >= 1 + 1 + OPTIONS.consumers


async def test_a_gateway_that_does_not_start_is_the_reason(children: Children) -> None:
    """The outcome names it, and no process is left."""
    with trio.fail_after(LIMIT_S):
        outcome = await run(OPTIONS, no_gateway, embed_cluster)
    assert outcome.reason == "the gateway did not start: port 19092 is in use"
    assert outcome.steps == ()
    assert outcome.totals is None
    assert children() == set()


async def test_the_death_of_the_embedded_cluster_is_the_reason(children: Children) -> None:
    """Its process is the first child."""
    gateway = BareUpstream(signal.SIGABRT, lambda: min(children()), children)
    with trio.fail_after(LIMIT_S):
        outcome = await run(OPTIONS, gateway, embed_cluster)
    assert outcome.reason is not None
    assert outcome.reason.startswith("the embedded cluster died (SIGABRT")
    assert len(gateway.seen) == 4
    assert children() == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_run_and_all_its_processes(
    number: signal.Signals, children: Children
) -> None:
    """The exit status is 128 plus the signal, as in a shell."""
    gateway = BareUpstream(number, os.getpid, children)
    with trio.fail_after(LIMIT_S):
        with pytest.raises(Interrupted, match=number.name) as caught:
            await run(OPTIONS, gateway, embed_cluster)
    assert caught.value.exit_status == 128 + number
    assert len(gateway.seen) == 4
    assert children() == set()
