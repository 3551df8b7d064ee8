"""One partition of a group: who holds it, and what was committed.

Judges grants, commits and fetches against what came before.

What a commit or a fetch is compared with is the offset in force: what was last stored, or what a
fetch has shown since. A commit of another member is never a reason to go below it. An owner may go
back within what it has consumed itself, and commits from outside the group are resets.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from gateway.events.offset_events import NO_MEMBER, CommittedOffsets
from gateway.pipeline.fold.order import Hosting, Source
from gateway.pipeline.fold.rows import FindingKind, NotCompared

IN_FLIGHT_MS_MAX = 1_000
"""How long a request may be on its way to the cluster and back."""


class Fault(NamedTuple):
    """A finding without its place."""

    kind: FindingKind
    is_certain: bool
    member_id: str
    other_member_id: str | None
    source: Source
    other: Source | None
    offset: int | None = None
    expected: int | None = None


@dataclass(slots=True, eq=False)
class GrantPeriod:
    """A member has the partition."""

    member_id: str
    source: Source
    from_ms: int | None
    """Null if it is older than the first line."""
    to_ms: int | None = None
    ended_by: str | None = None
    end: Source | None = None
    is_certain: bool = True
    """Whether its end would be stated."""
    is_shared: bool = False
    """Whether a finding says that others may have had the partition, too."""
    committed_ms: int = -1
    """When a commit was last stored meanwhile, by the gateway's clock; only with several logs."""
    last_hosting: Hosting | None = None
    """The latest hosting that has continued with it; null if that is the one of its beginning."""

    @property
    def gateway_id(self) -> str:
        """The log that has it."""
        return self.source.gateway_id

    @property
    def held_in(self) -> Hosting:
        """The latest hosting of the group in which the member had the partition."""
        return self.last_hosting or self.source.hosting

    def shared_with(self, member_id: str, source: Source, *, is_certain: bool = False) -> Fault:
        """Another member has the partition meanwhile, as this line shows."""
        ids, lines = (member_id, self.member_id), (source, self.source)
        return Fault("owned_twice", is_certain, *ids, *lines)


class Skip(NamedTuple):
    """An owner began above what was stored. A commit that was on its way may explain it."""

    fault: Fault
    offset: int
    """Where it began."""
    owner_ids: set[str]
    """The owner and all later ones, whose commits explain nothing."""

    def is_explained_by(self, member_id: str, last: int, from_ms: int) -> bool:
        """Whether a commit was on its way to the cluster, whose answer it passed."""
        is_earlier = from_ms <= self.fault.source.at_ms + IN_FLIGHT_MS_MAX
        return is_earlier and last >= self.offset and member_id not in self.owner_ids


class KnownOffset(Struct, frozen=True):
    """An offset that the cluster had, or that it had none, with the line that shows it."""

    offset: int | None
    source: Source
    member_id: str = NO_MEMBER
    """The member that has stored it, if the line says that."""
    since_ms: int = 0
    """What the gateway's clock showed at the earliest when it was stored; 0 if that is unknown."""
    is_reset: bool = False
    is_certain: bool = True
    """False if it may have been that of a deleted topic with the same name."""


@dataclass(slots=True)
class Handover:
    """A partition passed from one member to another; whether that could be compared is open."""

    before: GrantPeriod
    grant: GrantPeriod
    not_compared: NotCompared | None
    """A reason that is known already."""
    was_forwarded: bool
    stored: int | None = None
    fetched: int | None = None
    is_compared: bool = False


@dataclass(slots=True, eq=False)
class PartitionHistory:
    """What is known of one partition."""

    topic: str
    number: int
    topic_id: str | None
    is_whole: bool
    """Whether its first commit would be among the lines."""
    owner_id: str | None = None
    """The member that has the partition, as granted."""
    open: list[GrantPeriod] = field(default_factory=list)
    """Grants that have not ended. More than one is a fault, or in the logs of several gateways."""
    latest: GrantPeriod | None = None
    ended_ms: dict[str, int] = field(default_factory=dict)
    """When the latest grant of each member ended."""
    was_forwarded: bool = False
    """Whether the cluster has had the group since the latest grant."""
    stored: KnownOffset | None = None
    settled: KnownOffset | None = None
    """What had been stored before the commits of the last second, or the lowest offset of these."""
    shown: KnownOffset | None = None
    """What was last fetched; null if a commit has been stored since."""
    begun: KnownOffset | None = None
    """Where the latest owner began that was told an offset; null as with `shown`."""
    start: KnownOffset | None = None
    """Where the owner began, by what it fetched or what was stored."""
    has_acted: bool = False
    """Whether the owner has fetched or committed."""
    pending: dict[str, tuple[CommittedOffsets, str, Source]] = field(default_factory=dict)
    """Offsets in transactions that have not ended, by transactional id."""
    is_open_transaction: bool = False
    """Whether a commit was in a transaction whose end no line can state."""
    handover: Handover | None = None
    skips: tuple[Skip, ...] = ()
    """Starts that no commit has explained yet."""
    early: KnownOffset | None = None
    """An offset that a client was told before any line had stored it."""

    def begin_grant(self, grant: GrantPeriod) -> None:
        """Another member has the partition from now on."""
        before = self.latest
        self.open.append(grant)
        self.latest, self.owner_id = grant, grant.member_id
        self.has_acted = False
        for skip in self.skips:
            skip.owner_ids.add(grant.member_id)
        if before is None or before.member_id != grant.member_id:
            self.start = self.stored
        self.was_forwarded = False

    def end_grant(self, grant: GrantPeriod, source: Source, cause: str | None) -> None:
        """A member no longer has the partition."""
        self.open.remove(grant)
        self.owner_id = self.open[-1].member_id if self.open else None
        grant.to_ms, grant.end, grant.ended_by = source.at_ms, source, cause
        self.ended_ms[grant.member_id] = source.at_ms

    def fetch(self, member_id: str, fetched: int | None, source: Source) -> Fault | None:
        """A client fetched the committed offset. Returns what is wrong with it."""
        stored, fault = self.stored, None
        owner_id = self.owner_id
        is_owner = owner_id is not None and member_id in (owner_id, NO_MEMBER)
        is_start = is_owner and not self.has_acted
        if fetched is not None and (stored is None or fetched != stored.offset):
            self.early = KnownOffset(fetched, source)
        fetched_from = -1 if fetched is None else fetched
        if _is_above(self._highest(source.at_ms), fetched_from):
            known = self._stored_before(source, member_id, is_owner=is_owner)
            if _is_above(known, fetched_from):
                ids = member_id or owner_id or NO_MEMBER, known.member_id or None
                lines = source, known.source
                fault = Fault("commit_lost", known.is_certain, *ids, *lines, fetched, known.offset)
                # The client continues from there, which is no further fault.
                if stored is not None:
                    self.stored = KnownOffset(fetched, source, stored.member_id)
                self.settled = None
        elif is_start and fetched is not None and self._skips(fetched):
            before = (None, fetched) if stored is None else (stored.source, fetched, stored.offset)
            skipped = Fault("records_skipped", False, owner_id or NO_MEMBER, None, source, *before)
            self.skips = (*self.skips, Skip(skipped, fetched, {skipped.member_id}))
        self.shown = KnownOffset(fetched, source)
        if is_start or self.was_forwarded:
            self.begun = self.shown
        if is_start:
            self._compare(self.stored, fetched, had_none=fetched is None and self.is_whole)
            self.start = self.shown
        if is_owner:
            self.has_acted = True
        return fault

    def _highest(self, until_ms: int) -> KnownOffset | None:
        """The highest offset that the cluster is known to have. What was shown later does not
        count."""
        stored, shown = self.stored, self.shown
        offset = stored.offset if stored is not None else None
        if shown is None or shown.source.at_ms > until_ms:
            return stored
        return shown if _is_above(shown, -1 if offset is None else offset) else stored

    def _stored_before(
        self, source: Source, member_id: str, *, is_owner: bool
    ) -> KnownOffset | None:
        """The offset that the cluster had at least when the fetch was requested."""
        for known in (self._highest(source.at_ms), self.stored):
            if known is None:
                continue
            is_own = is_owner and (member_id == known.member_id or self._is_older_than_grant(known))
            if is_own or known.source.at_ms <= source.at_ms - IN_FLIGHT_MS_MAX:
                return known
        return self.settled

    def _is_older_than_grant(self, stored: KnownOffset) -> bool:
        return self.latest is not None and stored.source.at_ms <= self.latest.source.at_ms

    def _skips(self, fetched: int) -> bool:
        """Whether an owner that begins there begins above what was stored, as far as all commits
        are there, and above where an earlier one has begun since. What others were told is no
        reason to begin there."""
        stored, handover = self.stored, self.handover
        before = self.begun
        if stored is not None:
            is_above = fetched != stored.offset and self._is_older_than_grant(stored)
            return is_above and not (before is not None and before.offset == fetched)
        if not self.is_whole or self.is_open_transaction:
            return False
        if handover is None or handover.not_compared is not None:
            return False
        before = before or self.shown
        return before is not None and fetched > (before.offset or 0)

    def _compare(
        self, stored: KnownOffset | None, fetched: int | None = None, *, had_none: bool = False
    ) -> None:
        """The owner fetches or commits for the first time. `had_none`: whether it is known that
        nothing had been stored."""
        if self.handover is None:
            return
        self.handover.fetched = fetched
        if self.pending or self.is_open_transaction:
            self.handover.not_compared = self.handover.not_compared or "transactional"
            return
        if stored is not None:
            self.handover.stored = stored.offset
        self.handover.is_compared = stored is not None or had_none

    def commit(
        self, member_id: str, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> Fault | None:
        """The cluster stored commits of one client. Returns what is wrong with them."""
        stored, last, fault = self.stored, entry.last, None
        if stored is not None and stored.source.at_ms <= source.at_ms - IN_FLIGHT_MS_MAX:
            self.settled = stored
        is_back = _is_above(stored, entry.lowest)
        if is_back and _is_above(self.settled, entry.lowest):
            is_certain = self.settled.is_certain
            self.settled = KnownOffset(entry.lowest, source, member_id, is_certain=is_certain)
        if member_id == NO_MEMBER:
            self.stored = KnownOffset(last, source, is_reset=True)
            self.start = self.start if self.has_acted else self.stored
            self.shown = self.begun = None
            return None
        if is_back or self.shown is not None or _is_above(self.start, entry.lowest):
            fault = self._went_back(member_id, entry, from_ms, source)
            self.shown = self.begun = None
        if self.skips or not self.has_acted:
            self._begin(member_id, last, from_ms)
        since_ms = from_ms if from_ms < source.clock_ms else source.clock_ms
        if stored is not None and stored.offset == last:
            is_one_clock = stored.source.gateway_id == source.gateway_id
            since_ms = stored.since_ms if is_one_clock else 0
        self.stored = KnownOffset(last, source, member_id, since_ms)
        return fault

    def _begin(self, member_id: str, last: int, from_ms: int) -> None:
        """A commit may be the first act of the owner, or explain where one began."""
        if not self.has_acted and member_id == self.owner_id:
            self.has_acted = True
            self._compare(self.stored)
        self.skips = tuple(
            skip for skip in self.skips if not skip.is_explained_by(member_id, last, from_ms)
        )

    def _went_back(
        self, member_id: str, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> Fault | None:
        stored, start, lowest = self.stored, self.start, entry.lowest
        is_owner = member_id == self.owner_id
        is_own = stored is not None and stored.member_id == member_id
        highest = self._highest(from_ms)  # a later fetch may have shown one of these commits
        if is_owner and _is_above(start, lowest) and start.source.at_ms <= from_ms:
            expected = start  # behind its predecessor
        elif not _is_above(highest, lowest):
            return None
        elif is_owner and (stored is None or is_own or stored.is_reset):
            return None  # a seek
        elif is_own and self.ended_ms.get(member_id) is None:
            return None  # a seek of a member whose grants no line states
        else:
            expected = highest
        ids = member_id, stored.member_id if stored is not None else None
        lines, offsets = (source, expected.source), (lowest, expected.offset)
        return Fault("commit_went_back", expected.is_certain, *ids, *lines, *offsets)

    def delete_offset(self, source: Source) -> None:
        """An admin deleted the offset."""
        self.stored = KnownOffset(None, source, is_reset=True)
        self.settled = self.shown = self.begun = self.start = None

    def doubt_offset(self) -> None:
        """What is known may have been that of a topic or a group that was deleted."""
        self.stored, self.shown, self.start = (
            known and replace(known, is_certain=False)
            for known in (self.stored, self.shown, self.start)
        )
        self.settled = None

    def forget_offset(self) -> None:
        """What is stored is not known any more."""
        self.stored = self.settled = self.shown = self.begun = self.start = None
        self.skips = ()
        self.is_whole = False

    def skip_faults(self) -> Iterator[Fault]:
        """Starts that skipped records, unless a transaction whose end no line has stated yet
        explains them."""
        for skip in self.skips:
            if not any(
                entry.last >= skip.offset and source.at_ms <= skip.fault.source.at_ms
                for entry, _member_id, source in self.pending.values()
            ):
                yield skip.fault


def _is_above(known: KnownOffset | None, offset: int) -> TypeGuard[KnownOffset]:
    return known is not None and known.offset is not None and known.offset > offset
