"""The members' own claims to partitions, made by a join, a heartbeat or a commit. Nothing here is
derived from the engine's grants."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from coordinator.interface.volatile_records import ClassicPhase, MemberPhase
from gateway.events.group_events import GroupStateMoved
from gateway.events.member_events import MemberStateMoved, PartitionsStated
from gateway.events.offset_events import NO_MEMBER, OffsetsCommitted
from gateway.pipeline.history import History
from gateway.pipeline.tables.granted import TopicPartition
from gateway.pipeline.tables.intervals import Interval


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
    from_ms: int
    to_ms: int


Claims: TypeAlias = Mapping[TopicPartition, Sequence[Claim]]


@dataclass(frozen=True, slots=True)
class _Word:
    """Something that a member said: its partitions by topic, at one or two moments."""

    member_id: str
    is_commit: bool
    partitions: Mapping[str, tuple[int, ...]]
    from_ms: int
    to_ms: int


def claims(history: History) -> Claims:
    """The claims to each partition."""
    words, begun_ms, rejoined_ms = _words(history)
    found: dict[TopicPartition, dict[tuple[str, int, bool], Claim]] = {}
    for word in words:
        for at_ms in {word.from_ms, word.to_ms}:
            rounds = bisect_right(begun_ms.get(word.member_id, ()), at_ms)
            rounds += bisect_right(rejoined_ms, at_ms)
            key = word.member_id, rounds, word.is_commit
            for topic, numbers in word.partitions.items():
                for number in numbers:
                    of_partition = found.setdefault((topic, number), {})
                    claim = of_partition.get(key)
                    if claim is None:
                        of_partition[key] = Claim(*key, at_ms, at_ms)
                    else:
                        claim.from_ms = min(claim.from_ms, at_ms)
                        claim.to_ms = max(claim.to_ms, at_ms)
    return {partition: list(some.values()) for partition, some in found.items()}


def _words(history: History) -> tuple[list[_Word], Mapping[str, list[int]], list[int]]:
    """What was said, when each member began rounds, and when the group's rebalances did."""
    words: list[_Word] = []
    begun_ms: dict[str, list[int]] = {}
    rejoined_ms: list[int] = []
    kinds = (OffsetsCommitted, PartitionsStated, GroupStateMoved, MemberStateMoved)
    for told in history.of(*kinds):
        match told.event:
            case OffsetsCommitted() as commits if commits.member_id != NO_MEMBER:
                numbers = {
                    topic: tuple(each.partition for each in some)
                    for topic, some in commits.offsets.items()
                }
                words.append(_Word(commits.member_id, True, numbers, *told.span_ms(commits)))
            case PartitionsStated() as stated if stated.member_id != NO_MEMBER:
                begun_ms.setdefault(stated.member_id, []).append(told.at_ms)
                of_one = (stated.partitions, told.at_ms, told.at_ms)
                words.append(_Word(stated.member_id, False, *of_one))
            case GroupStateMoved(to_state=ClassicPhase.PREPARING_REBALANCE):
                rejoined_ms.append(told.at_ms)
            case MemberStateMoved(to_state=MemberPhase.PREPARE_REBALANCE) as moved:
                begun_ms.setdefault(moved.member_id, []).append(told.at_ms)
            case _:
                pass
    return words, begun_ms, rejoined_ms


def stated(claims: Iterable[Claim]) -> Iterator[Interval]:
    """The intervals of one partition: from a member's first claim to its last, without an
    intermediate round that leaves the partition out. Positions are times."""
    in_order = sorted(claims, key=lambda each: (each.member_id, each.rounds, each.is_commit))
    for member_id, some in groupby(in_order, key=lambda each: each.member_id):
        spans: list[list[int]] = []
        rounds = 0
        for claim in some:
            # A statement begins a round, so the previous round must have claimed the partition too.
            expected = claim.rounds if claim.is_commit else claim.rounds - 1
            if not spans or rounds < expected:
                spans.append([claim.from_ms, claim.to_ms])
            else:
                spans[-1] = [min(spans[-1][0], claim.from_ms), max(spans[-1][1], claim.to_ms)]
            rounds = claim.rounds
        for from_ms, to_ms in spans:
            yield Interval(
                member_id=member_id,
                from_position=from_ms,
                from_ms=from_ms,
                to_position=to_ms,
                to_ms=to_ms,
                leaves_gap=True,
            )
