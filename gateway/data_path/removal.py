"""Sends clients to the cluster: they resolve their bootstrap servers again (KIP-1102).

A client that asks for Metadata is told REBOOTSTRAP_REQUIRED, and its connections are closed. Java
drops its connections by itself. librdkafka keeps those that it has, and tries its bootstrap servers
only while no broker takes it; so the connections of a told client are closed for a while.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import trio

from gateway.cluster.broker_connection import SOFTWARE_NAME
from gateway.data_path.brokers import ClientSoftware
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.metadata import MetadataResponse

TOLD_SINCE_VERSION = 13
"""The first version of Metadata with an error for the whole answer."""
REBOOTSTRAP = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
TELL_INTERVAL_S = 60.0
"""How often a client is told at most. In between it is served."""
CLOSING_S = 10.0
"""How long the connections of a told client are closed. A client that stays all the same is served
again before its session is over."""
RUN_S = 45.0
"""How long a removal takes at most."""
QUIET_S = 5.0
"""How long no client must be connected before the removal is over: those that were sent away wait a
little before they connect again, perhaps here."""
LOOK_INTERVAL_S = 0.25
WAKE_INTERVAL_S = 1.0
"""How often clients are woken: one at first, then twice as many each time, so that few are
disturbed in vain if their bootstrap servers still lead here."""
REMEMBERED_MAX = 40_000
"""Clients whose version of Metadata is remembered, and clients remembered as told."""


class ClientIdentity(NamedTuple):
    """A client. Connections with the same address and client id count as one client's."""

    host: str
    client_id: str | None

    def __str__(self) -> str:
        return f"{self.client_id or 'a client without an id'} at {self.host}"


class RemovableConnection(Protocol):
    """A client's connection."""

    @property
    def client(self) -> ClientIdentity:
        """Whose it is."""

    @property
    def software(self) -> ClientSoftware:
        """What the client has introduced itself as."""

    @property
    def accepted_s(self) -> float:
        """When it began."""

    @property
    def is_at_bootstrap(self) -> bool:
        """Whether its port is the one that `bootstrap.servers` names."""

    def drain(self) -> None:
        """Close it, once the requests in flight are answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """What became of a removal, or would become of it."""

    is_over: bool = False
    """Whether no client is left."""
    redirected: int = 0
    """Clients that were told to resolve their bootstrap servers again."""
    reasons: tuple[str, ...] = ()
    """Why it was stopped."""
    left: tuple[str, ...] = ()
    """A line for each client that is left."""


class Removal:
    """Sends away the clients of a gateway while `run` runs. Remembers whom it has told."""

    def __init__(self) -> None:
        self.visitors: Collection[RemovableConnection] = ()
        """The connections of all clients."""
        self._began_s: float | None = None
        # By hash: a fixed size, because clients choose the lengths of names.
        self._told_s: QuotaCache[int, float] = QuotaCache(REMEMBERED_MAX, ShareRule())
        self._versions: QuotaCache[int, int] = QuotaCache(REMEMBERED_MAX, ShareRule())
        self._redirected = 0

    @property
    def is_running(self) -> bool:
        """Whether clients are being sent away."""
        return self._began_s is not None

    def tells(self, client: ClientIdentity, version: int) -> bool:
        """Note a Metadata request of this version. Returns whether to answer it with `REBOOTSTRAP`;
        if so, the client counts as told."""
        self._versions.put(hash(client), version, QuotaKey(client.host))
        now_s = trio.current_time()
        if not self.is_running or version < TOLD_SINCE_VERSION or self._has_heard(client, now_s):
            return False
        self._told_s.put(hash(client), now_s, QuotaKey(client.host))
        self._redirected += 1
        return True

    def left_behind(self) -> tuple[str, ...]:
        """A line for each client here that would not follow, as far as known."""
        return tuple(
            f"{client} ({_name(visits)}) {reason}"
            for client, visits in self._clients().items()
            if (reason := self._why_left_behind(client))
        )

    async def run(self, hosted: Callable[[], Collection[str]]) -> Departures:
        """Send all clients away while `hosted` names no group. At most one may run."""
        now_s = trio.current_time()
        self._began_s, self._redirected = now_s, 0
        try:
            with trio.move_on_after(RUN_S):
                return await self._send_away(hosted)
            return Departures(redirected=self._redirected, left=self._still_here())
        finally:
            self._began_s = None

    async def _send_away(self, hosted: Callable[[], Collection[str]]) -> Departures:
        woken: set[ClientIdentity] = set()
        wake_s, wakes = trio.current_time(), 1
        seen_s = -math.inf if not self.visitors else wake_s
        while trio.current_time() - seen_s < QUIET_S:
            if self.visitors:
                seen_s = trio.current_time()
            if names := hosted():
                return Departures(redirected=self._redirected, reasons=reasons_of_hosted(names))
            if (returned := self._close()) is not None:
                reason = (
                    f"{returned} came back: its bootstrap servers still lead to this gateway. Point"
                    " that name at the cluster, and try again once no resolver remembers the"
                    " address of the gateway"
                )
                return Departures(redirected=self._redirected, reasons=(reason,))
            if trio.current_time() >= wake_s:
                self._wake(woken, wakes)
                wake_s, wakes = wake_s + WAKE_INTERVAL_S, 2 * wakes
            await trio.sleep(LOOK_INTERVAL_S)
        return Departures(is_over=True, redirected=self._redirected)

    def _close(self) -> ClientIdentity | None:
        """Close the connections of clients that were told. Returns a client that has come back."""
        now_s, began_s = trio.current_time(), self._began_s
        assert began_s is not None
        for visitor in tuple(self.visitors):
            told_s = self._told_s.get(hash(visitor.client))
            if told_s is not None and began_s <= told_s and now_s - told_s < CLOSING_S:
                if visitor.is_at_bootstrap and visitor.accepted_s > told_s:
                    return visitor.client
                visitor.drain()
        return None

    def _wake(self, woken: set[ClientIdentity], clients_max: int) -> None:
        """Close the connections of some more clients that would understand: they connect again and
        ask for Metadata. Otherwise they do so every five minutes."""
        now_s = trio.current_time()
        for client, visits in self._clients().items():
            if clients_max == 0:
                return
            if client in woken or self._has_heard(client, now_s) or self._why_left_behind(client):
                continue
            woken.add(client)
            clients_max -= 1
            for visit in visits:
                visit.drain()

    def _has_heard(self, client: ClientIdentity, now_s: float) -> bool:
        told_s = self._told_s.get(hash(client))
        return told_s is not None and now_s - told_s < TELL_INTERVAL_S

    def _still_here(self) -> tuple[str, ...]:
        return tuple(
            f"{client} ({_name(visits)}) {self._why_left_behind(client) or 'has not gone yet'}"
            for client, visits in self._clients().items()
        )

    def _clients(self) -> dict[ClientIdentity, list[RemovableConnection]]:
        visits = defaultdict[ClientIdentity, list[RemovableConnection]](list)
        for visitor in tuple(self.visitors):
            visits[visitor.client].append(visitor)
        return dict(sorted(visits.items(), key=lambda item: str(item[0])))

    def _why_left_behind(self, client: ClientIdentity) -> str:
        """Why the client is not known to follow; nothing if it is."""
        version = self._versions.get(hash(client))
        if version is None:
            return "has not asked for Metadata yet"
        if version < TOLD_SINCE_VERSION:
            return f"needs a restart: it asks for Metadata v{version}"
        return ""


def reasons_of_hosted(names: Collection[str]) -> tuple[str, ...]:
    """Why clients cannot go while these groups are hosted: the cluster would refuse them."""
    return tuple(
        f"{group_id} is hosted: groupferry release {group_id}" for group_id in sorted(names)
    )


_V = TypeVar("_V")


def _name(visits: Sequence[RemovableConnection]) -> str:
    software = visits[-1].software
    return (
        "unknown software"
        if software.name == SOFTWARE_NAME
        else f"{software.name} {software.version}"
    )
