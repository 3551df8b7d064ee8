"""Consumers of one group that are restarted one after another, driven second by second.

Classic ones are eager: told to rejoin, they give up everything. Each consumer sends a heartbeat
every second and immediately does what the answer asks for.
"""

from dataclasses import dataclass, field

from coordinator.interface.replies import JoinGroupReply, SyncGroupReply
from kafka_codecs.error_codes import ErrorCode
from tests.support.group_script import GroupScript, read_assignment

SECOND_MS = 1_000
SETTLES_WITHIN_S = 60


@dataclass(slots=True)
class Consumer:
    """One process, from its start to its end."""

    is_native: bool
    member_id: str = ""
    epoch: int = 0
    claims: frozenset[int] = frozenset()
    joining: int | None = None
    syncing: int | None = None


@dataclass(slots=True)
class Cost:
    """What a step cost."""

    disturbed: set[str] = field(default_factory=set)
    """The consumers other than the restarted one that gave up a partition, even for a moment."""
    moved: int = 0
    """How many partitions changed their owner for good."""


class RolledGroup:
    """The consumers of the topic foo."""

    def __init__(self, group: GroupScript) -> None:
        self.group = group
        self.consumers: dict[str, Consumer] = {}
        self.disturbed: set[str] = set()
        self._ids = 0

    def start(self, name: str, *, is_native: bool) -> None:
        self._ids += 1
        self.consumers[name] = Consumer(is_native, f"native-{self._ids:03}" if is_native else "")

    def stop(self, name: str) -> None:
        consumer = self.consumers.pop(name)
        if consumer.is_native:
            self.group.native(consumer.member_id, -1)
        else:
            self.group.leave(consumer.member_id)

    def restart(self, name: str, *, is_native: bool, gap_s: int) -> Cost:
        """Restart one consumer, with the given protocol from then on, and wait until all have come
        to rest."""
        before, self.disturbed = self.owners(), set()
        self.stop(name)
        self.run(gap_s)
        self.start(name, is_native=is_native)
        self.settle()
        after = self.owners()
        moved = sum(before[number] != owner for number, owner in after.items())
        return Cost(self.disturbed - {name}, moved)

    def owners(self) -> dict[int, str]:
        return {n: name for name, consumer in self.consumers.items() for n in consumer.claims}

    def loads(self) -> list[int]:
        """How many partitions each consumer has, ascending."""
        return sorted(len(consumer.claims) for consumer in self.consumers.values())

    def settle(self) -> None:
        """Wait until every partition has an owner and nothing changes any more."""
        count = self.group.topics.by_name["foo"].partition_count
        quiet = 0
        for _ in range(SETTLES_WITHIN_S):
            before = {
                name: (consumer.epoch, consumer.claims) for name, consumer in self.consumers.items()
            }
            self.run(1)
            now = {
                name: (consumer.epoch, consumer.claims) for name, consumer in self.consumers.items()
            }
            is_whole = len(self.owners()) == count and self.group.view().state == "Stable"
            quiet = quiet + 1 if is_whole and now == before else 0
            if quiet == 3:
                return
        raise AssertionError(f"no rest: {self.loads()}\n{self.group.transcript()}")

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.group.wait(SECOND_MS)
            for name, consumer in self.consumers.items():
                self._act(name, consumer)

    def _act(self, name: str, consumer: Consumer) -> None:
        if consumer.is_native:
            self._act_natively(name, consumer)
        elif consumer.joining is not None or consumer.syncing is not None:
            self._hear(name, consumer)
        elif not consumer.epoch:
            self._join(name, consumer)
        else:
            error = self.group.beat(consumer.member_id, consumer.epoch).error
            if error == ErrorCode.REBALANCE_IN_PROGRESS:
                self._take(name, consumer, frozenset())
                self._join(name, consumer)
            else:
                assert error == ErrorCode.NONE, self.group.transcript()

    def _act_natively(self, name: str, consumer: Consumer) -> None:
        owned = {"foo": tuple(sorted(consumer.claims))} if consumer.claims else {}
        reply = self.group.native(consumer.member_id, consumer.epoch, owned=owned)
        assert reply.error == ErrorCode.NONE, self.group.transcript()
        consumer.epoch = reply.member_epoch or 0
        if reply.assignment is not None:
            self._take(name, consumer, frozenset(p.number for p in reply.assignment))

    def _take(self, name: str, consumer: Consumer, claims: frozenset[int]) -> None:
        if consumer.claims - claims:
            self.disturbed.add(name)
        consumer.claims = claims

    def _join(self, name: str, consumer: Consumer) -> None:
        consumer.joining = self.group.send_join(consumer.member_id, owned={})
        self._hear(name, consumer)

    def _hear(self, name: str, consumer: Consumer) -> None:
        """Continue with what has been answered."""
        answers = self.group.answers
        if consumer.joining in answers:
            joined, consumer.joining = answers[consumer.joining], None
            assert isinstance(joined, JoinGroupReply)
            consumer.member_id = joined.member_id or consumer.member_id
            if joined.error in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS):
                self._join(name, consumer)
                return
            assert joined.error == ErrorCode.NONE, self.group.transcript()
            consumer.epoch = joined.generation
            consumer.syncing = self.group.send_sync(
                consumer.member_id, consumer.epoch, assignments=self._shares(joined)
            )
        if consumer.syncing in answers:
            synced, consumer.syncing = answers[consumer.syncing], None
            assert isinstance(synced, SyncGroupReply)
            if synced.error == ErrorCode.REBALANCE_IN_PROGRESS:
                self._join(name, consumer)
                return
            assert synced.error == ErrorCode.NONE, self.group.transcript()
            numbers = read_assignment(synced.assignment).get("foo", ())
            self._take(name, consumer, frozenset(numbers))

    def _shares(self, joined: JoinGroupReply) -> dict[str, dict[str, tuple[int, ...]]]:
        """What the leader of a classic group assigns: a block for each member."""
        if joined.leader != joined.member_id:
            return {}
        ids = sorted(member.member_id for member in joined.members)
        count = self.group.topics.by_name["foo"].partition_count
        bounds = [count * n // len(ids) for n in range(len(ids) + 1)]
        return {id_: {"foo": tuple(range(bounds[n], bounds[n + 1]))} for n, id_ in enumerate(ids)}
