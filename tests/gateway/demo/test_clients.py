"""The client processes against the embedded cluster itself, without a gateway.

Only what one member at a time can show: joins of classic members take too long there.
"""

import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeVar

import pytest
import trio

from gateway.demo import mock_cluster, reports
from gateway.demo.child import Child, run_child
from gateway.demo.fleet import Fleet
from gateway.demo.ledger import Ledger
from gateway.demo.reports import Assigned, Closed, Committed, Consumed, Produced, Report, Revoked

TOPIC = "numbers"
PARTITIONS = 5
LIMIT_S = 60

R = TypeVar("R", bound=Report)


class Heard:
    """The reports of one child, and a way to wait for one."""

    def __init__(self) -> None:
        self.all: list[Report] = []
        self._more = trio.Event()

    def __call__(self, line: str) -> None:
        """Hear one line."""
        self.all.append(reports.decode(line))
        self._more.set()
        self._more = trio.Event()

    def of(self, kind: type[R]) -> list[R]:
        """Return the reports of one kind."""
        return [report for report in self.all if isinstance(report, kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was heard makes the condition true."""
        while not condition():
            await self._more.wait()


class Stage:
    """An embedded cluster with room for clients."""

    def __init__(self, nursery: trio.Nursery, bootstrap: str) -> None:
        self.nursery = nursery
        self.bootstrap = bootstrap

    async def start(self, client: str, *arguments: str) -> tuple[Child, Heard]:
        """Start a client process."""
        heard = Heard()
        child: Child = await self.nursery.start(
            partial(
                run_child,
                f"gateway.demo.{client}",
                [f"--bootstrap={self.bootstrap}", f"--topic={TOPIC}", *arguments],
                name=client,
                on_line=heard,
            )
        )
        return child, heard

    async def produce(self) -> tuple[Child, Heard]:
        """Start the producer."""
        return await self.start("producer", f"--partitions={PARTITIONS}", "--rate=500")

    async def consume(self, *arguments: str) -> tuple[Child, Heard]:
        """Start a consumer."""
        return await self.start(
            "consumer", "--group=g", "--client-id=c", "--assignor=range", *arguments
        )


@asynccontextmanager
async def _stage() -> AsyncIterator[Stage]:
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            bootstrap: str = await nursery.start(
                partial(mock_cluster.run, topic=TOPIC, partitions=PARTITIONS)
            )
            yield Stage(nursery, bootstrap)
            nursery.cancel_scope.cancel()


@pytest.fixture
def stage() -> AbstractAsyncContextManager[Stage]:
    return _stage()


def numbers(heard: Heard) -> list[int]:
    return [
        number for report in heard.of(Consumed) for run in report.runs for number in range(*run)
    ]


async def test_the_producer_numbers_its_records_and_counts_them(
    stage: AbstractAsyncContextManager[Stage],
) -> None:
    """Record n lies in partition n modulo the partitions; the final count is what was stored."""
    async with stage as at:
        child, heard = await at.produce()
        await heard.until(lambda: any(each.acknowledged > 50 for each in heard.of(Produced)))
        await child.finish(LIMIT_S)
    *_, last = heard.of(Produced)
    assert last.final
    assert last.failed == 0
    assert sum(last.end_offsets) == last.acknowledged
    assert max(last.end_offsets) - min(last.end_offsets) <= 1
    assert child.fate() == "exit status 0"


@pytest.mark.parametrize(
    "arguments",
    [("--protocol=classic",), ("--protocol=consumer",), ("--protocol=consumer", "--static")],
)
async def test_a_consumer_consumes_commits_and_gives_up_in_good_order(
    stage: AbstractAsyncContextManager[Stage], arguments: tuple[str, ...]
) -> None:
    """Every record once, every commit acknowledged, ownership from callback to callback."""
    started_s = time.monotonic()
    async with stage as at:
        producer, produced = await at.produce()
        child, heard = await at.consume(*arguments)
        await heard.until(lambda: len(numbers(heard)) > 300 and bool(heard.of(Committed)))
        await producer.finish(LIMIT_S)
        total = produced.of(Produced)[-1].acknowledged
        await heard.until(lambda: len(numbers(heard)) >= total)
        await child.finish(LIMIT_S)
    everything = set(range(PARTITIONS))
    assert sorted(numbers(heard)) == list(range(total))
    assert {p for report in heard.of(Assigned) for p in report.partitions} == everything
    assert {p for report in heard.of(Revoked) for p in report.partitions} == everything
    committed = dict(pair for report in heard.of(Committed) for pair in report.offsets)
    assert tuple(committed[p] for p in range(PARTITIONS)) == produced.of(Produced)[-1].end_offsets
    assert isinstance(heard.all[-1], Closed)
    stamps = [report.at_s for report in heard.all]
    assert stamps == sorted(stamps)
    assert started_s < stamps[0]
    assert stamps[-1] < time.monotonic()


async def test_sigterm_closes_a_consumer_as_well(stage: AbstractAsyncContextManager[Stage]) -> None:
    """Whoever stops it by hand gets an orderly end too."""
    async with stage as at:
        child, heard = await at.consume("--protocol=consumer")
        await heard.until(lambda: bool(heard.of(Assigned)))
        os.kill(child.pid, signal.SIGTERM)
        await child.ended.wait()
    assert isinstance(heard.all[-1], Closed)
    assert child.fate() == "exit status 0"


async def test_the_fleet_replaces_members_and_restarts_killed_ones(
    stage: AbstractAsyncContextManager[Stage],
) -> None:
    """One process per member at a time; an unexpected end is counted, an ordered one is not."""
    ledger = Ledger(PARTITIONS)
    everywhere = {partition: {"c-1"} for partition in range(PARTITIONS)}
    nowhere: dict[int, set[str]] = {partition: set() for partition in range(PARTITIONS)}

    async def until_owners(wanted: dict[int, set[str]]) -> None:
        while ledger.owners() != wanted:  # noqa: ASYNC110  (the ledger is plain data)
            await trio.sleep(0.02)

    async with stage as at:
        arguments = [f"--bootstrap={at.bootstrap}", f"--topic={TOPIC}"]
        fleet = Fleet(["c-1"], [*arguments, "--group=g", "--assignor=range"], ledger)
        fleet.wanted["c-1"] = "consumer"
        at.nursery.start_soon(fleet.run)
        await until_owners(everywhere)
        await fleet.replace("c-1", "consumer")
        assert ledger.owners() == nowhere
        await until_owners(everywhere)
        assert fleet.unexpected_ends == 0
        killed = fleet.pid("c-1")
        os.kill(killed, signal.SIGKILL)
        await until_owners(nowhere)
        assert fleet.unexpected_ends == 1
        while fleet.pid("c-1") == killed:  # noqa: ASYNC110  (so is the fleet)
            await trio.sleep(0.02)
        await fleet.close()
        assert ledger.owners() == nowhere
    assert fleet.unexpected_ends == 1
    assert ledger.owned_twice() == set()
