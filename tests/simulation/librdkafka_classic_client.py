"""A classic consumer that behaves like librdkafka where librdkafka differs from the Java client.

A cooperative one keeps its partitions if its JoinGroup is refused, and claims them again in the
next one. Without its member id it sends that twice (librdkafka 5569), and uses the second answer.
"""

from collections.abc import Iterable

from coordinator.interface.replies import JoinGroupReply
from coordinator.interface.topics import Partition
from kafka_codecs.error_codes import ErrorCode
from tests.simulation.classic_client import ClassicClient
from tests.simulation.driver import Answer


class LibrdkafkaClassicClient(ClassicClient):
    """A classic client that joins twice after it has lost its member id."""

    kind = "kafka (librd)"

    def hear_join(self, answer: Answer) -> None:
        is_lost = answer.reply.error == ErrorCode.UNKNOWN_MEMBER_ID and not self.is_closing
        is_confirmed = self.world.now_ms - self.confirmed_ms < self.spec.session_timeout_ms
        if not (is_lost and is_confirmed and self.spec.is_cooperative):
            super().hear_join(answer)
            return
        assert isinstance(answer.reply, JoinGroupReply)
        self.member_id = ""
        self._forget_generation()
        self.ask(self.join_request(), lambda _answer: None, lambda: None)
        self.send_join()

    def assign(
        self, partitions: Iterable[Partition], *, granted_ms: int, is_lie: bool = False
    ) -> None:
        """Own what it has claimed again under its new id."""
        granted = frozenset(partitions)
        for partition in granted & self.claims.keys():
            if self.claims[partition].member_id != self.member_id:
                del self.claims[partition]
        super().assign(granted, granted_ms=granted_ms, is_lie=is_lie)
