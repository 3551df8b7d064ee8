"""Careless clients: honest, because they use only partitions that they were granted, but sloppy.

They are late, repeat requests, state the epoch before the last, come back with the id of a process
that crashed, lose the member id that they were given, and end without leaving. Each habit is one of
real clients (`tests/simulation/README.md`). The group must protect every partition all the same,
and come to rest.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.interface.events import (
    ConsumerHeartbeatReceived,
    HeartbeatReceived,
    OffsetCommitReceived,
    Request,
)
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.classic_client import ClassicClient
from tests.simulation.client import Client
from tests.simulation.driver import Answer
from tests.simulation.native_client import NativeClient

LATE_MS_MAX = 1_500
"""How long a careless client looks away when it should act."""
REPEATED = (ConsumerHeartbeatReceived, HeartbeatReceived, OffsetCommitReceived)
REPEAT_RATE = 0.1
STALE_RATE = 0.5
"""How often the first request in a new epoch states the old one."""
LOST_ID_RATE = 0.3


class Careless(Client):
    """The habits that do not depend on the protocol."""

    kind = "careless"
    _last_stated = 0
    first_token = 0
    """Requests with an earlier one are those of the process that this one has come back as."""

    def come_back_as(self, before: Client) -> None:
        """Use the member id of a process that is dead, if it spoke the same protocol and no other
        process has come back as it. What it sent may still arrive."""
        is_same_kind = isinstance(before, NativeClient) is isinstance(self, NativeClient)
        if not (is_same_kind and before.member_id):
            return
        self.member_id, before.member_id = before.member_id, ""
        self._line = before._line
        self._line.name = self.name
        self.first_token = self.token()

    def stated_epoch(self) -> int:
        """The epoch. The first request in a new epoch may state the old one."""
        before, self._last_stated = self._last_stated, self.epoch
        is_new = min(before, self.epoch) > 0 and before != self.epoch
        return before if is_new and self.world.chance(STALE_RATE) else self.epoch

    def ask(
        self,
        request: Request,
        heard: Callable[[Answer], None],
        lost: Callable[[], None],
        positions: dict[Partition, int] | None = None,
    ) -> None:
        """Send a request, perhaps twice. The first answer counts, whichever request it is for: a
        client that ignored the second would not have heard what its connection has delivered."""
        under_way, is_heard = 1, False

        def hear_first(answer: Answer) -> None:
            nonlocal is_heard
            if not is_heard:
                is_heard = True
                heard(answer)

        def lose_last() -> None:
            nonlocal under_way
            under_way -= 1
            if not (under_way or is_heard):
                lost()

        super().ask(request, hear_first, lose_last, positions)
        if isinstance(request, REPEATED) and self.world.chance(REPEAT_RATE):
            under_way += 1
            super().ask(replace(request, token=self.token()), hear_first, lose_last, positions)

    def _late_ms(self) -> int:
        return self.world.between(0, LATE_MS_MAX)

    def _ends_without_leaving(self) -> bool:
        """Not once the faults are over: the operator's roll would wait for the session."""
        return not self.context.network.is_calm and self.world.chance(0.5)


class CarelessNative(Careless, NativeClient):
    """Sends heartbeats irregularly, and takes its time before it reconciles."""

    def _beat(self) -> None:
        self.later(self._heartbeat_interval_ms + self._late_ms(), self._beat)
        self.beat()

    def reconcile(self) -> None:
        self.later(self._late_ms(), super().reconcile)

    def _leave(self) -> None:
        if self._ends_without_leaving():
            self.die("does not leave")
        else:
            super()._leave()


class CarelessClassic(Careless, ClassicClient):
    """Takes its time before it rejoins, and may lose the member id that it was given."""

    def rejoin(self) -> None:
        self.later(self._late_ms(), super().rejoin)

    def hear_join(self, answer: Answer) -> None:
        is_lost = self.world.chance(LOST_ID_RATE)
        if answer.reply.error is ErrorCode.MEMBER_ID_REQUIRED and is_lost and not self.is_closing:
            self.send_join()
        else:
            super().hear_join(answer)

    def _leave(self) -> None:
        if self._ends_without_leaving():
            self.die("does not leave")
        else:
            super()._leave()
