"""Connections of consumers that bypass the gateway: they end at the cluster itself."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from coordinator.interface.errors import GroupError
from coordinator.interface.events import OffsetCommitReceived, OffsetFetchReceived
from coordinator.interface.replies import Reply
from coordinator.interface.topics import Topics
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.cluster import Commit
from tests.simulation.connection import DELAY_MS_MAX, FORWARDED, NOTICE_MS_MAX, Ask
from tests.simulation.driver import Answer
from tests.simulation.network import Line, Network


class DirectConnection:
    """One connection of a consumer to the group's coordinator."""

    def __init__(self, network: Network, name: str) -> None:
        self.is_broken = False
        self._network, self._name = network, name
        self._inbox: deque[Ask] = deque()
        self._asks: Ask | None = None
        """The request under way."""
        self._sent: Sequence[Commit] = ()

    def send(self, ask: Ask) -> None:
        """Send a request. The broker handles one at a time."""
        self._inbox.append(ask)
        delay_ms = self._network.world.between(1, DELAY_MS_MAX)
        self._network.world.after(delay_ms, self._serve_next)

    def break_up(self, *, by_client: bool = False) -> None:
        """Break the connection."""
        del by_client
        if self.is_broken:
            return
        self.is_broken = True
        world = self._network.world
        lost = [*self._inbox, *([] if self._asks is None else [self._asks])]
        for ask in lost:
            world.after(world.between(0, NOTICE_MS_MAX), ask.lost)
        self._inbox.clear()
        self._asks = None
        self._network.cluster.end_relayed(self._sent)

    def _serve_next(self) -> None:
        if self._asks is not None or not self._inbox:
            return
        self._asks = ask = self._inbox.popleft()
        cluster = self._network.cluster
        match ask.request:
            case OffsetFetchReceived() as fetch:
                offsets = self._network.fetch(self._name, fetch)
                reply = fetch.refuse(GroupError(ErrorCode.NONE, FORWARDED))
                now_ms = self._network.world.now_ms
                answer = Answer(reply=reply, at_ms=now_ms, topics=cluster.topics)
                self._hear(ask, replace(answer, offsets=offsets))
            case OffsetCommitReceived():
                commit = self._network.commit_of(ask, None, self._name, 0, is_relayed=True)
                self._sent = (commit,)
                cluster.send(self._sent, lambda _commit, code: self._on_committed(ask, code))
            case request:
                cluster.relay(request, lambda *answer: self._on_answer(ask, *answer))

    def _on_committed(self, ask: Ask, code: int | None) -> None:
        reply = None
        if code is not None:
            reply = ask.request.refuse(GroupError(ErrorCode(code), FORWARDED))
        self._on_answer(ask, reply, self._network.world.now_ms, self._network.cluster.topics)

    def _on_answer(self, ask: Ask, reply: Reply | None, at_ms: int, topics: Topics) -> None:
        if ask is not self._asks:
            return
        if reply is None:
            self.break_up()
        else:
            self._hear(ask, Answer(reply=reply, at_ms=at_ms, topics=topics))

    def _hear(self, ask: Ask, answer: Answer) -> None:
        self._asks = None
        ask.heard(answer)
        self._network.world.after(0, self._serve_next)


class DirectLine(Line):
    """The link of a consumer that bypasses the gateway."""

    def __init__(self, network: Network, name: str) -> None:
        self.name = name
        self._network = network
        self._connection = DirectConnection(network, name)  # type: ignore[assignment]

    def cut(self, *, by_client: bool = False) -> None:
        """Break the connection."""
        self._connection.break_up(by_client=by_client)

    def turn(self) -> None:
        """Stay at the coordinator, which does not move."""

    def send(self, ask: Ask) -> None:
        """Send a request."""
        if self._connection.is_broken:
            connection = DirectConnection(self._network, self.name)
            self._connection = connection  # type: ignore[assignment]
        self._connection.send(ask)
