"""The demo's consumers: the protocol wanted for each member, and the processes that run them.

A process that ends unasked (it was killed) is replaced, as by any supervisor; the ledger shows
whether that did harm.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial

import structlog
import trio

from gateway.demo import reports
from gateway.demo.child import Child, run_child
from gateway.demo.errors import DemoError
from gateway.demo.group_view import Protocol
from gateway.demo.ledger import Ledger, Process

CLOSE_LIMIT_S = 20.0
UNEXPECTED_ENDS_MAX = 10
RESTART_DELAY_S = 2.0

log = structlog.get_logger()


class Fleet:
    """A fixed set of members, each run by one process at a time."""

    def __init__(
        self, names: list[str], arguments: list[str], ledger: Ledger, bootstrap: str
    ) -> None:
        """`arguments` are for every consumer process, besides its name, protocol and bootstrap
        servers."""
        self.wanted: dict[str, Protocol] = dict.fromkeys(names, "classic")
        """The protocol wanted for each member."""
        self._bootstraps = dict.fromkeys(names, bootstrap)

        self.unexpected_ends = 0
        self._arguments = arguments
        self._ledger = ledger
        self._children: dict[str, Child] = {}
        self._closing = trio.Event()

    async def run(self) -> None:
        """Keep a process running for every member until `close`. Kills and reaps all when
        cancelled.

        Raises DemoError if processes keep ending by themselves.
        """
        async with trio.open_nursery() as nursery:
            for name in self.wanted:
                nursery.start_soon(self._keep, name)

    def pid(self, name: str) -> int:
        """The id of the process that runs this member."""
        return self._children[name].pid

    async def replace(self, name: str, protocol: Protocol, bootstrap: str | None = None) -> None:
        """Stop one member cleanly. Its replacement starts immediately with this protocol, and with
        other bootstrap servers if they are given."""
        self.wanted[name] = protocol
        self._bootstraps[name] = bootstrap or self._bootstraps[name]
        await self._children[name].finish(CLOSE_LIMIT_S)

    async def close(self) -> None:
        """Stop all members cleanly. Raises DemoError if one takes too long."""
        self._closing.set()
        async with trio.open_nursery() as nursery:
            for child in self._children.values():
                nursery.start_soon(child.finish, CLOSE_LIMIT_S)

    async def _keep(self, name: str) -> None:
        for incarnation in itertools.count(1):
            if self._closing.is_set():
                return
            process = Process(member=name, incarnation=incarnation)
            protocol, bootstrap = self.wanted[name], self._bootstraps[name]
            async with trio.open_nursery() as nursery:
                child = self._children[name] = await nursery.start(
                    partial(
                        run_child,
                        "gateway.demo.consumer",
                        [
                            *self._arguments,
                            f"--bootstrap={bootstrap}",
                            f"--client-id={name}",
                            f"--protocol={protocol}",
                        ],
                        name=name,
                        on_line=self._listener(process),
                    )
                )
                log.info("consumer_started", member=name, group_protocol=protocol, pid=child.pid)
                is_wanted = (self.wanted[name], self._bootstraps[name]) == (protocol, bootstrap)
                if self._closing.is_set() or not is_wanted:
                    child.ask_to_end()  # another one was wanted during its start
            self._ledger.process_ended(process, time.monotonic())
            if child.ended_in_good_order():
                log.info("consumer_ended", member=name, group_protocol=protocol, pid=child.pid)
            else:
                await self._report_death(name, child)

    def _listener(self, process: Process) -> Callable[[str], None]:
        def record(line: str) -> None:
            report = reports.decode(line)
            assert not isinstance(report, reports.ProducedReport)
            self._ledger.record(process, report)
            if isinstance(report, reports.TroubledReport):
                log.debug("consumer_troubled", member=process.member, reason=report.error)

        return record

    async def _report_death(self, name: str, child: Child) -> None:
        self.unexpected_ends += 1
        if self.unexpected_ends > UNEXPECTED_ENDS_MAX:
            raise DemoError(f"the consumers keep dying, {name} last ({child.describe_exit()})")
        log.warning(
            "consumer_died",
            member=name,
            pid=child.pid,
            reason=child.describe_exit(),
            next_retry_s=RESTART_DELAY_S,
        )
        await trio.sleep(RESTART_DELAY_S)
