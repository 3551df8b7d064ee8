"""One partition of a group: who holds it, and what was committed.

Judges grants, commits and fetches against what came before.

What a commit or a fetch is compared with is the offset in force: what was last stored, or what a
fetch has shown since. A commit of another member is never a reason to go below it. An owner may go
back within what it has consumed itself, and commits from outside the group are resets.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, TypeGuard, TypeVar

from gateway.events.offset_events import NO_MEMBER, CommittedOffsets, OffsetsCommitted
from gateway.pipeline.fold.lines import NUMBER_MAX
from gateway.pipeline.fold.order import Hosting, Placed
from gateway.pipeline.fold.rows import FindingKind, NotCompared

IN_FLIGHT_MS_MAX = 1_000
"""How long a request may be on its way to the cluster and back."""
EXPLAINED_MS_MAX = 30_000
"""How long after a fetch a commit may be stated that explains what was fetched."""


class Source(NamedTuple):
    """A line, as a finding names it."""

    at_ms: int
    hosting: Hosting
    process_id: str | None
    sequence: int
    clock_ms: int
    """What the gateway's clock showed."""


def source_of(placed: Placed) -> Source:
    """The line as a source."""
    at_ms, line, hosting, _number = placed
    clock_ms = line.fields.to_ms if type(line.fields) is OffsetsCommitted else line.at_ms
    return Source(at_ms, hosting, line.process_id, line.sequence, clock_ms)


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
    """The latest hosting that has gone on with it; null if that is the one of its beginning."""

    @property
    def held_in(self) -> Hosting:
        """The latest hosting of the group in which the member had the partition."""
        return self.last_hosting or self.source.hosting


class Fault(NamedTuple):
    """A finding without its place."""

    kind: FindingKind
    is_certain: bool
    member_id: str
    other_member_id: str | None
    offset: int | None
    expected: int | None
    source: Source
    other: Source | None


class StoredOffset(NamedTuple):
    """An offset that the cluster has, or that it has none."""

    offset: int | None
    member_id: str
    source: Source
    is_reset: bool = False
    since_ms: int = 0
    """What the gateway's clock showed at the earliest when it was stored; 0 if that is unknown."""


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


@dataclass(slots=True)
class Progress:
    """The sums of the commits."""

    first: int
    last: int
    member_id: str
    from_ms: int
    to_ms: int
    commits: int = 0


class Skip(NamedTuple):
    """An owner fetched more than what was stored. A commit that was on its way may explain it."""

    fetched: int
    stored: int
    member_id: str
    source: Source
    other: Source


class ShownOffset(NamedTuple):
    """An offset that the cluster had, with the line that shows it."""

    offset: int | None
    source: Source


@dataclass(slots=True, eq=False)
class PartitionHistory:
    """What is known of one partition."""

    topic: str
    number: int
    topic_id: str | None
    is_whole: bool
    """Whether its first commit would be among the lines."""
    open: list[GrantPeriod] = field(default_factory=list)
    """Grants that have not ended. More than one is a fault, or in the logs of several gateways."""
    latest: GrantPeriod | None = None
    ended_ms: dict[str, int] = field(default_factory=dict)
    """When the latest grant of each member ended."""
    was_forwarded: bool = False
    """Whether the cluster has had the group since the latest grant."""
    stored: StoredOffset | None = None
    shown: ShownOffset | None = None
    """What was last fetched; null if a commit has been stored since."""
    start: ShownOffset | None = None
    """Where the owner began, by what it fetched or what was stored."""
    has_acted: bool = False
    """Whether the owner has fetched or committed."""
    pending: dict[str, tuple[CommittedOffsets, str, Source]] = field(default_factory=dict)
    """Offsets in transactions that have not ended, by transactional id."""
    is_open_transaction: bool = False
    """Whether a commit was in a transaction whose end no line can state."""
    handover: Handover | None = None
    progress: Progress | None = None
    skip: Skip | None = None
    early: ShownOffset | None = None
    """An offset that a client was told before any line had stored it."""

    @property
    def owner_id(self) -> str | None:
        """The member that has the partition, as granted."""
        return self.open[-1].member_id if self.open else None

    def begin_grant(self, grant: GrantPeriod) -> None:
        """Another member has the partition from now on."""
        before = self.latest
        self.open.append(grant)
        self.latest = grant
        self.has_acted = False
        self.skip = None
        if before is None or before.member_id != grant.member_id:
            stored = self.stored
            self.start = None if stored is None else ShownOffset(stored.offset, stored.source)
        self.was_forwarded = False

    def end_grant(self, grant: GrantPeriod, source: Source, cause: str | None) -> None:
        """A member no longer has the partition."""
        self.open.remove(grant)
        grant.to_ms, grant.end, grant.ended_by = source.at_ms, source, cause
        self.ended_ms[grant.member_id] = source.at_ms

    def fetch(self, member_id: str, fetched: int | None, source: Source) -> Fault | None:
        """A client fetched the committed offset. Returns what is wrong with it."""
        stored, fault = self.stored, None
        owner_id = self.owner_id
        is_owner = owner_id is not None and member_id in (owner_id, NO_MEMBER)
        is_start = is_owner and not self.has_acted
        if fetched is not None and (stored is None or fetched != stored.offset):
            self.early = ShownOffset(fetched, source)
        if stored is not None and stored.offset is not None and fetched != stored.offset:
            if fetched is None or fetched < stored.offset:
                if self._was_stored_before(stored, source, member_id, is_owner=is_owner):
                    fault = Fault(
                        "commit_lost",
                        True,
                        member_id or owner_id or NO_MEMBER,
                        stored.member_id,
                        fetched,
                        stored.offset,
                        source,
                        stored.source,
                    )
                    # The client continues from there, which is no further fault.
                    self.stored = StoredOffset(fetched, stored.member_id, source)
            elif is_start and self._is_older_than_grant(stored):
                self.skip = Skip(fetched, stored.offset, owner_id or "", source, stored.source)
        self.shown = ShownOffset(fetched, source)
        if is_start:
            self._compare(fetched)
            self.start = self.shown
        if is_owner:
            self.has_acted = True
        return fault

    def _was_stored_before(
        self, stored: StoredOffset, source: Source, member_id: str, *, is_owner: bool
    ) -> bool:
        """Whether the offset was stored before the fetch was requested."""
        if is_owner and self._is_older_than_grant(stored):
            return True
        if is_owner and member_id == stored.member_id:
            return True
        return stored.source.at_ms <= source.at_ms - IN_FLIGHT_MS_MAX

    def _is_older_than_grant(self, stored: StoredOffset) -> bool:
        return self.latest is not None and stored.source.at_ms <= self.latest.source.at_ms

    def _compare(self, fetched: int | None) -> None:
        handover = self.handover
        if handover is None or handover.is_compared:
            return
        handover.fetched = fetched
        if self.pending or self.is_open_transaction:
            return
        if self.stored is not None:
            handover.stored, handover.is_compared = self.stored.offset, True
        elif fetched is None and self.is_whole:
            handover.is_compared = True  # nothing had been stored

    def commit(
        self, member_id: str, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> Fault | None:
        """The cluster stored commits of one client. Returns what is wrong with them."""
        last, stored, start = entry.last, self.stored, self.start
        fault = None
        if member_id == NO_MEMBER:
            self.stored = StoredOffset(last, member_id, source, is_reset=True)
        else:
            if (
                self.shown is not None
                or _is_above(stored, entry.lowest)
                or _is_above(start, entry.lowest)
            ):
                fault = self._went_back(member_id, entry, from_ms, source)
            if not self.has_acted and member_id == self.owner_id:
                self.has_acted = True
                self._compare_commit(stored)
            if self.skip is not None and member_id != self.skip.member_id:
                is_explained = last >= self.skip.fetched
                if is_explained and from_ms <= self.skip.source.at_ms + IN_FLIGHT_MS_MAX:
                    self.skip = None
            since_ms = min(from_ms, source.clock_ms)
            if stored is not None and stored.offset == last:
                is_one_clock = stored.source.hosting.gateway_id == source.hosting.gateway_id
                since_ms = stored.since_ms if is_one_clock else 0
            self.stored = StoredOffset(last, member_id, source, False, since_ms)
        self.shown = None
        progress = self.progress
        if progress is None:
            progress = self.progress = Progress(entry.first, last, member_id, from_ms, source.at_ms)
        progress.last, progress.member_id = last, member_id
        progress.to_ms = source.at_ms
        progress.commits = min(progress.commits + entry.commits, NUMBER_MAX)
        return fault

    def _compare_commit(self, stored: StoredOffset | None) -> None:
        handover = self.handover
        if handover is None or handover.is_compared or stored is None:
            return
        if not self.pending and not self.is_open_transaction:
            handover.stored, handover.is_compared = stored.offset, True

    def _highest(self, from_ms: int) -> ShownOffset | None:
        """What no commit of another member may go below. A fetch after the first of several commits
        may have shown that one."""
        highest: ShownOffset | None = None
        stored, shown = self.stored, self.shown
        if stored is not None and stored.offset is not None:
            highest = ShownOffset(stored.offset, stored.source)
        if shown is None or shown.offset is None or shown.source.at_ms > from_ms:
            return highest
        return shown if highest is None or _is_above(shown, highest.offset or 0) else highest

    def _went_back(
        self, member_id: str, entry: CommittedOffsets, from_ms: int, source: Source
    ) -> Fault | None:
        stored, start, lowest = self.stored, self.start, entry.lowest
        is_owner = member_id == self.owner_id
        is_own = stored is not None and stored.member_id == member_id
        highest = self._highest(from_ms)
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
        return Fault(
            "commit_went_back",
            True,
            member_id,
            stored.member_id if stored is not None else None,
            lowest,
            expected.offset,
            source,
            expected.source,
        )

    def delete_offset(self, source: Source) -> None:
        """An admin deleted the offset."""
        self.stored = StoredOffset(None, NO_MEMBER, source, is_reset=True)
        self.shown = self.start = self.skip = None

    def forget_offset(self) -> None:
        """What is stored is not known any more."""
        self.stored = self.shown = self.start = self.skip = None
        self.is_whole = False

    def take_skip(self, now_ms: int | None) -> Fault | None:
        """A start that skipped records, unless a commit may yet explain it."""
        skip = self.skip
        if skip is None or (now_ms is not None and now_ms < skip.source.at_ms + EXPLAINED_MS_MAX):
            return None
        self.skip = None
        if any(entry.last >= skip.fetched for entry, _member, _source in self.pending.values()):
            return None
        return Fault(
            "records_skipped",
            False,
            skip.member_id,
            None,
            skip.fetched,
            skip.stored,
            skip.source,
            skip.other,
        )


AnyOffset = TypeVar("AnyOffset", ShownOffset, StoredOffset)


def _is_above(shown: AnyOffset | None, offset: int) -> TypeGuard[AnyOffset]:
    return shown is not None and shown.offset is not None and shown.offset > offset
