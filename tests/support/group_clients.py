"""Clients that follow the protocol, as Kafka's Java consumers do (spec section 12).

`act` is one turn: hear what was answered, or send the next request. `owned` is what the
application believes to own.
"""

from collections.abc import Mapping

from coordinator.errors import ErrorCode
from coordinator.replies import JoinGroupReply, SyncGroupReply
from kafka_codecs.consumer_protocol import decode_subscription
from tests.support.group_script import GroupScript, read_assignment

Names = set[tuple[str, int]]


def listed(owned: Names) -> dict[str, list[int]]:
    """Owned partitions as the wire groups them."""
    return {topic: sorted(n for t, n in owned if t == topic) for topic in {t for t, _ in owned}}


def named(listing: Mapping[str, tuple[int, ...]]) -> Names:
    """The reverse."""
    return {(topic, n) for topic, numbers in listing.items() for n in numbers}


class NativeClient:
    """Talks ConsumerGroupHeartbeat. After a lost reply it states everything. It names its topics,
    or has a regular expression that matches them."""

    def __init__(
        self,
        script: GroupScript,
        name: str,
        topics: tuple[str, ...],
        instance_id: str | None,
        *,
        has_regex: bool = False,
    ) -> None:
        self.script, self.topics, self.instance_id = script, topics, instance_id
        self.names, self.regex = ((), "|".join(topics)) if has_regex else (topics, "")
        self.member_id, self.epoch, self.owned = name, 0, Names()
        self.is_settled = self.has_lost_a_reply = False

    def act(self, *, is_lost: bool) -> None:
        is_full = self.epoch == 0 or self.has_lost_a_reply
        reply = self.script.native(
            self.member_id,
            self.epoch,
            instance_id=self.instance_id,
            topics=self.names if is_full else None,
            regex=self.regex if is_full else None,
            owned=listed(self.owned),
            rebalance_timeout_ms=10_000 if is_full else -1,
        )
        self.has_lost_a_reply = is_lost
        if is_lost:
            return
        before = set(self.owned)
        if reply.error:
            self.epoch = 0
            self.owned.clear()
        else:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                self.owned = named(self.script.named(reply.assignment))
        self.is_settled = not reply.error and before == self.owned

    def lose_connection(self) -> None:
        self.has_lost_a_reply = True

    def stop(self, *, comes_back: bool) -> None:
        self.owned.clear()
        epoch = -2 if comes_back and self.instance_id else -1
        self.script.native(self.member_id, epoch, instance_id=self.instance_id)


class ClassicClient:
    """Talks JoinGroup; eager or cooperative. If it leads a generic group, it assigns."""

    def __init__(
        self,
        script: GroupScript,
        counts: Mapping[str, int],
        topics: tuple[str, ...],
        instance_id: str | None,
        *,
        is_cooperative: bool,
    ) -> None:
        self.script, self.counts, self.topics = script, counts, topics
        self.instance_id, self.is_cooperative = instance_id, is_cooperative
        self.member_id, self.generation, self.owned = "", -1, Names()
        self.join: int | None = None
        self.sync: int | None = None
        self.is_joined = self.is_settled = False

    def act(self, *, is_lost: bool) -> None:
        self.is_settled = False
        if self.join is not None:
            self._hear_join(self.join)
        elif self.sync is not None:
            self._hear_sync(self.sync)
        elif self.is_joined:
            self._beat(is_lost=is_lost)
        else:
            self._send_join()

    def lose_connection(self) -> None:
        """What waited is not answered any more; it is asked again."""
        if self.join is not None and self.script.is_parked(self.join):
            self.join = None
        if self.sync is not None and self.script.is_parked(self.sync):
            self.sync = None

    def stop(self, *, comes_back: bool) -> None:
        self.owned.clear()
        if self.instance_id is None or not comes_back:
            self.script.leave((self.member_id, self.instance_id))

    def _send_join(self) -> None:
        if not self.is_cooperative:
            self.owned.clear()
        self.join = self.script.send_join(
            self.member_id,
            topics=self.topics,
            owned=listed(self.owned),
            generation=self.generation,
            instance_id=self.instance_id,
            embedded_version=2,
        )

    def _hear_join(self, token: int) -> None:
        if self.script.is_parked(token):
            return
        reply = self.script.answer(token, JoinGroupReply)
        self.join = None
        if reply.error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        elif reply.error:
            self._fail(reply.error)
        else:
            self.member_id, self.generation = reply.member_id, reply.generation
            leads = reply.leader == self.member_id and not reply.skip_assignment
            self.sync = self.script.send_sync(
                self.member_id,
                self.generation,
                instance_id=self.instance_id,
                protocol_name=reply.protocol_name,
                assignments=self._assign(reply) if leads else {},
            )

    def _hear_sync(self, token: int) -> None:
        if self.script.is_parked(token):
            return
        reply = self.script.answer(token, SyncGroupReply)
        self.sync = None
        if reply.error:
            self._fail(reply.error)
            return
        granted = named(read_assignment(reply.assignment)) if reply.assignment else Names()
        # What a cooperative client revoked now, it tells the group at once.
        self.is_joined = not (self.is_cooperative and self.owned - granted)
        self.owned = granted

    def _beat(self, *, is_lost: bool) -> None:
        reply = self.script.beat(self.member_id, self.generation, instance_id=self.instance_id)
        if is_lost:
            return
        if reply.error:
            self._fail(reply.error)
        self.is_settled = not reply.error

    def _fail(self, error: ErrorCode) -> None:
        self.is_joined = False
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        self.owned.clear()
        self.generation = -1
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            # The latter ends the process, which is started again.
            self.member_id = ""
        else:
            assert error == ErrorCode.ILLEGAL_GENERATION, error

    def _assign(self, reply: JoinGroupReply) -> dict[str, dict[str, list[int]]]:
        """Round robin; what another member owns is withheld until that one has given it up."""
        told = {m.member_id: decode_subscription(m.metadata)[1] for m in reply.members}
        owners = {
            (each.topic, n): id_
            for id_, subscription in told.items()
            for each in subscription.owned_partitions
            for n in each.partitions
        }
        given: dict[str, Names] = {id_: Names() for id_ in told}
        for topic, count in self.counts.items():
            wanting = sorted(id_ for id_, each in told.items() if topic in each.topics)
            for n in range(count if wanting else 0):
                id_ = wanting[n % len(wanting)]
                if owners.get((topic, n), id_) == id_:
                    given[id_].add((topic, n))
        return {id_: listed(names) for id_, names in given.items()}


Client = NativeClient | ClassicClient
