"""A native consumer that behaves like librdkafka where librdkafka differs from the Java client.

Its heartbeats are full until the first assignment, and after it lost its coordinator. Otherwise
they are short. Before it takes an assignment it asks for the names of the topics. After
COORDINATOR_LOAD_IN_PROGRESS the client repeats the same heartbeat, and it abandons a heartbeat that
is not answered within the heartbeat interval. It repeats a failed commit as it was, with the same
offsets and epoch.
"""

from collections.abc import Callable
from dataclasses import replace

from coordinator.interface.events import ConsumerHeartbeatReceived, OffsetCommitReceived
from coordinator.interface.replies import ConsumerHeartbeatReply
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.client import RETRY_MS, Client, ClientContext, Spec
from tests.simulation.driver import Answer
from tests.simulation.native_client import NativeClient

NAMES_MS_MAX, SLOW_NAMES_MS_MAX = 40, 3_000
SLOW_NAMES_RATE = 0.25
"""How long it takes to learn the names of topics, and how often the cluster is slow."""


class LibrdkafkaClient(NativeClient):
    """A native client that counts the content of a heartbeat as sent once it was answered."""

    kind = "librdkafka"

    def __init__(self, context: ClientContext, name: str, spec: Spec) -> None:
        super().__init__(context, name, spec)
        self._had_assignment = False
        self._commits = 0
        self._asks_for_names = False

    def beat(self) -> None:
        if self._awaits_beat or self._is_fenced_off or self.is_closing:
            return
        self._awaits_beat = True
        is_under_way = True
        sent_at, stated = self.member_epoch, self._stated
        must_state_all = self._must_state_all
        request = self._heartbeat(self.stated_epoch())
        must_state_owned = self._must_state_owned and request.owned is not None
        self._must_state_all = False
        self._must_state_owned &= request.owned is None

        def ends() -> bool:
            """Whether the heartbeat was still pending, and not abandoned."""
            nonlocal is_under_way
            was_under_way, is_under_way = is_under_way, False
            self._awaits_beat &= not was_under_way
            return was_under_way

        def send_again() -> None:
            self._was_fine = False
            self._must_state_all |= must_state_all
            self._must_state_owned |= must_state_owned
            self._stated = stated
            self.later(RETRY_MS, self.beat)

        def on_answer(answer: Answer) -> None:
            assert isinstance(answer.reply, ConsumerHeartbeatReply)
            if not ends() or sent_at != self.member_epoch:
                return
            if answer.reply.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                send_again()
            else:
                self.hear(answer.reply, answer.at_ms)

        def on_loss() -> None:
            if ends():
                send_again()
                self._must_state_all = True

        def give_up() -> None:
            if ends():
                send_again()

        self.ask(request, on_answer, on_loss)
        self.later(self._heartbeat_interval_ms, give_up)

    def _heartbeat(self, epoch: int) -> ConsumerHeartbeatReceived:
        self._must_state_all |= not self._had_assignment
        request = super()._heartbeat(epoch)
        if self._must_state_all and request.owned is None and epoch > 0:
            # librdkafka states owned partitions even while a callback runs.
            return replace(request, owned=self.stated_owned())
        return request

    def send_commit(
        self,
        request: OffsetCommitReceived,
        positions: dict[Partition, int],
        again: Callable[[], None],
        done: Callable[[], None],
    ) -> None:
        """Repeat the commit as it was, unless a newer one has been sent."""
        self._commits += 1
        newest = self._commits

        def repeat() -> None:
            if newest == self._commits:
                self._commits += 1
                same = replace(request, token=self.token())
                Client.send_commit(self, same, positions, again, done)
            else:
                done()

        super().send_commit(request, positions, repeat, done)

    def reconcile(self) -> None:
        """Take the latest assignment, once the names of its topics are known."""
        is_news = self._target is not None and self.claims.keys() != self._target
        if is_news and not self._asks_for_names:
            self._asks_for_names = True
            is_slow = self.world.chance(SLOW_NAMES_RATE)
            delay_ms = self.world.between(1, SLOW_NAMES_MS_MAX if is_slow else NAMES_MS_MAX)
            self.later(delay_ms, self._names_known)

    def _names_known(self) -> None:
        self._asks_for_names = False
        self._had_assignment |= self._target is not None and self.claims.keys() != self._target
        super().reconcile()

    def _rejoin(self) -> None:
        self._had_assignment = False
        super()._rejoin()
