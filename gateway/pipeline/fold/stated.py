"""The members' own claims to partitions, made by a join, a heartbeat or a commit. Nothing here is
derived from the engine's grants.

While the cluster serves a group, its coordinator grants, and no event tells what. What members say
then is no claim to be checked.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.events.event import GatewayEvent
from gateway.events.group_events import (
    GroupAdopted,
    GroupForwarded,
    GroupStateChanged,
    HostingStarted,
    ReleaseStarted,
)
from gateway.events.member_events import MemberStateChanged, PartitionsStated
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted
from gateway.pipeline.fold.granted import Interval, TopicPartition
from gateway.pipeline.fold.history import Hosting, Moment, Pairs, Told


@dataclass(slots=True)
class Claim:
    """A member's claims to a partition in one round, by statements or by commits.

    Each statement of a member begins a round. So does each rebalance that makes it rejoin, where a
    client that makes no statements may lose a partition silently.
    """

    member_id: str
    rounds: int
    """The rounds begun by then."""
    is_commit: bool
    first: Moment
    last: Moment
    """Their positions are times."""


Claims: TypeAlias = Mapping[TopicPartition, Sequence[Claim]]

_Speaker: TypeAlias = tuple[str, int, bool]
"""The member, the rounds begun by then, and whether it is by commits: as in `Claim`."""
_Partitions: TypeAlias = tuple[str, tuple[int, ...]]
"""A topic, and partitions that were claimed together."""


class _Word(NamedTuple):
    """Something that a member said: its partitions by topic, at one or two moments."""

    member_id: str
    is_commit: bool
    partitions: tuple[_Partitions, ...]
    from_ms: int
    to_ms: int
    hosting: Hosting


KINDS: frozenset[type[GatewayEvent]] = frozenset(
    (
        *(OffsetsCommitted, PartitionsStated, MemberStateChanged, GroupStateChanged),
        *(GroupForwarded, ReleaseStarted, HostingStarted, GroupAdopted),
    )
)
"""The events with claims, or with rounds of them."""


@dataclass(slots=True)
class ClaimFold:
    """The claims in one group. Takes its events in their order."""

    waiting: list[_Word] = field(default_factory=list)
    """Words that a round may yet begin for: those of the latest millisecond. Sorted by `to_ms`."""
    begun_ms: dict[str, list[int]] = field(default_factory=dict)
    """When each member began rounds."""
    rejoined_ms: list[int] = field(default_factory=list)
    """When the group's rebalances did."""
    forwarded_ms: int | None = None
    """Since when the cluster serves the group. A release that has begun ends what the engine
    grants."""
    hosted_ms: int = -1
    """When the cluster served it last."""
    spans: Pairs[tuple[_Speaker, _Partitions], list[Moment]] = field(default_factory=dict)
    """The first and the last of the claims that are alike."""

    def take(self, told: Told) -> None:
        """Take the next event, one of `KINDS`."""
        while self.waiting and self.waiting[0].to_ms < told.at_ms:
            self._add(self.waiting.pop(0))
        match told.event:
            case OffsetsCommitted(member_id=member_id) as commits if member_id != NO_MEMBER:
                partitions = tuple(
                    [
                        (topic, tuple([each.partition for each in some]))
                        for topic, some in commits.offsets.items()
                    ]
                )
                self._hear(
                    _Word(member_id, True, partitions, *told.span_ms(commits), told.hosting), told
                )
            case PartitionsStated(member_id=member_id) as statement if member_id != NO_MEMBER:
                self.begun_ms.setdefault(member_id, []).append(told.at_ms)
                partitions = tuple(statement.partitions.items())
                at_ms, hosting = told.at_ms, told.hosting
                self._hear(_Word(member_id, False, partitions, at_ms, at_ms, hosting), told)
            case GroupForwarded() | ReleaseStarted() if self.forwarded_ms is None:
                self.forwarded_ms = told.at_ms
            case HostingStarted() | GroupAdopted() if self.forwarded_ms is not None:
                self.forwarded_ms, self.hosted_ms = None, told.at_ms
            case GroupStateChanged(to_state=ClassicPhase.PREPARING_REBALANCE):
                self.rejoined_ms.append(told.at_ms)
            case MemberStateChanged(to_state=MemberPhase.PREPARE_REBALANCE, member_id=member_id):
                self.begun_ms.setdefault(member_id, []).append(told.at_ms)
            case _:
                pass

    def finish(self) -> Claims:
        """The claims to each partition."""
        for word in self.waiting:
            self._add(word)
        self.waiting.clear()
        found: dict[TopicPartition, dict[_Speaker, Claim]] = {}
        for (speaker, (topic, numbers)), (first, last) in self.spans.items():
            for number in numbers:
                of_partition = found.setdefault((topic, number), {})
                claim = of_partition.setdefault(speaker, Claim(*speaker, first, last))
                claim.first = min(claim.first, first)
                claim.last = max(claim.last, last)
        return {partition: list(claims.values()) for partition, claims in found.items()}

    def _hear(self, word: _Word, told: Told) -> None:
        is_forwarded = self.forwarded_ms is not None and word.to_ms >= self.forwarded_ms
        if is_forwarded or word.from_ms <= self.hosted_ms:
            return
        if word.to_ms < told.at_ms:
            self._add(word)
        elif not self.waiting or self.waiting[-1].to_ms <= word.to_ms:
            self.waiting.append(word)
        else:
            insort(self.waiting, word, key=attrgetter("to_ms"))

    def _add(self, word: _Word) -> None:
        member_id, is_commit, partitions, from_ms, to_ms, hosting = word
        begun_ms, rejoined_ms = self.begun_ms.get(member_id, ()), self.rejoined_ms
        rounds = bisect_right(begun_ms, from_ms) + bisect_right(rejoined_ms, from_ms)
        rounds_last = bisect_right(begun_ms, to_ms) + bisect_right(rejoined_ms, to_ms)
        first, last = Moment(from_ms, from_ms, hosting), Moment(to_ms, to_ms, hosting)
        if rounds == rounds_last:
            self._extend((member_id, rounds, is_commit), partitions, first, last)
        else:
            self._extend((member_id, rounds, is_commit), partitions, first, first)
            self._extend((member_id, rounds_last, is_commit), partitions, last, last)

    def _extend(
        self, speaker: _Speaker, partitions: Iterable[_Partitions], first: Moment, last: Moment
    ) -> None:
        for each in partitions:
            span = self.spans.setdefault((speaker, each), [first, last])
            span[0] = min(span[0], first)
            span[1] = max(span[1], last)


def stated(claims: Iterable[Claim]) -> Iterator[Interval]:
    """The intervals of one partition: from a member's first claim to its last, without an
    intermediate round that leaves the partition out. Positions are times."""
    in_order = sorted(claims, key=lambda each: (each.member_id, each.rounds, each.is_commit))
    for member_id, some in groupby(in_order, key=lambda each: each.member_id):
        spans: list[tuple[Moment, Moment]] = []
        rounds = 0
        for claim in some:
            # A statement begins a round, so the previous round must have claimed the partition too.
            expected = claim.rounds if claim.is_commit else claim.rounds - 1
            if not spans or rounds < expected:
                spans.append((claim.first, claim.last))
            else:
                first, last = spans[-1]
                spans[-1] = min(first, claim.first), max(last, claim.last)
            rounds = claim.rounds
        for first, last in spans:
            yield Interval(
                member_id=member_id,
                from_position=first.position,
                from_ms=first.at_ms,
                to_position=last.position,
                to_ms=last.at_ms,
                leaves_gap=True,
                begun=first,
                ended=last,
            )
