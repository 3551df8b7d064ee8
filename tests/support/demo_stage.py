"""An embedded cluster for the demo's client processes, and the reports of these processes."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import trio

from gateway.demo import mock_cluster, reports
from gateway.demo.child import Child, run_child
from gateway.demo.reports import ConsumedReport, Report

TOPIC = "numbers"
PARTITIONS = 5
LIMIT_S = 60

R = TypeVar("R", bound=Report)


class Heard:
    """The reports of one child process."""

    def __init__(self) -> None:
        self.all: list[Report] = []
        self._more = trio.Event()

    def __call__(self, line: str) -> None:
        """Record one line."""
        self.all.append(reports.decode(line))
        self._more.set()
        self._more = trio.Event()

    def numbers(self) -> list[int]:
        return [
            number
            for report in self.of(ConsumedReport)
            for run in report.runs
            for number in range(*run)
        ]

    def of(self, kind: type[R]) -> list[R]:
        return [report for report in self.all if isinstance(report, kind)]

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._more.wait()


class Stage:
    """An embedded cluster for client processes."""

    def __init__(self, nursery: trio.Nursery, bootstrap: str) -> None:
        self.nursery = nursery
        self.bootstrap = bootstrap

    async def start(self, client: str, *arguments: str) -> tuple[Child, Heard]:
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
        return await self.start("producer", f"--partitions={PARTITIONS}", "--rate=500")

    async def consume(self, *arguments: str) -> tuple[Child, Heard]:
        return await self.start(
            "consumer", "--group=g", "--client-id=c", "--assignor=range", *arguments
        )


@asynccontextmanager
async def open_stage() -> AsyncIterator[Stage]:
    """Run an embedded cluster with a topic. The block's end stops all processes."""
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            bootstrap: str = await nursery.start(
                partial(mock_cluster.run, topic=TOPIC, partitions=PARTITIONS)
            )
            yield Stage(nursery, bootstrap)
            nursery.cancel_scope.cancel()
