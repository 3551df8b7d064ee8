"""A gateway's part in the group that decides who owns which shards of its fleet, without IO.

The gateway is a static member of the group, under its own name. It joins again whenever what it
announces has changed in a way that others wait for: it has given up shards, serves, or leaves. The
member that leads a round deals the table (`table.py`). Every gateway follows each table, and opens
what it grants if it was made from the gateway's latest announcement.

`advance` returns the request that is due, and `take_orders` what the gateway has to do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.fleet.member import NO_SLOT
from gateway.fleet.table import (
    SLOTS_MAX,
    Announcement,
    FleetTable,
    GatewayAddress,
    Ports,
    Seat,
    deal,
    decode,
    encode,
    newest_table,
    without_ports,
)
from gateway.fleet.words import OwnerTable, Take
from gateway.hosting.identity import AnchorJoinMetadata
from gateway.hosting.upstream_member import (
    HEARTBEAT_INTERVAL_MS,
    NO_MEMBER,
    In,
    Joined,
    Meaning,
    Out,
    Refusal,
    UpstreamMember,
)
from kafka_codecs.declaration import Struct
from kafka_codecs.join_group import JoinGroupResponse
from kafka_codecs.sync_group import SyncGroupResponse

PROTOCOL_TYPE = PROTOCOL = "groupferry"
"""Tools that look for consumer groups show no such group."""
SESSION_TIMEOUTS_MS = (6_000, 10_000, 30_000)
"""The shortest session that the cluster accepts by default, and others in case it is configured
not to. A gateway that is silent for this long loses its shards."""
BEAT_INTERVAL_MS = 500
"""Each gateway learns this late that others wait for it in a round."""
GIVE_UP_WAIT_MS = 1_000
"""How long a gateway collects shards that it gives up before it begins a round."""
TRY_AGAIN_MS = 5_000
"""Before a shard that could not be opened, or that was lost, is tried again."""
FENCED_WITHIN_MS = 30_000
"""A gateway whose name another one takes twice within this time gives way. Once may be a late
request of its own."""


@dataclass(frozen=True, slots=True)
class Founding:
    """What the first leader has to find out before it deals the first table."""

    log_id: str
    """The id of the state log."""
    run_id: int
    """Greater than any run of the log before."""


@dataclass(slots=True, eq=False)
class ShardOwnership:
    """The state of one gateway. Times are milliseconds."""

    group_id: str
    name: str
    address: GatewayAddress
    shards: int
    nonce: str
    """Different for each process."""
    remembered_slot: int = NO_SLOT
    process: int = 0
    """The gateway's number among the processes of its address."""
    table: FleetTable | None = None
    """The latest that it follows."""
    is_superseded: bool = False
    """Whether another gateway has its name, so that this one has to end."""
    holds: set[int] = field(default_factory=set)
    """The shards that it has open, or is opening or closing."""
    is_leaving: bool = False
    _broker_ports: Ports = field(default_factory=dict)
    _node_ports: Ports = field(default_factory=dict)
    _changes: int = 0
    _must_join_ms: int | None = 0
    """Since when others wait for its next announcement."""
    _announced: Announcement | None = None
    _member_id: str = NO_MEMBER
    _fenced_ms: int | None = None
    _outrun: int | None = None
    _try_again_ms: dict[int, int] = field(default_factory=dict)
    """When shards may be opened again."""
    _dealt: FleetTable | None = None
    """The latest that it has dealt, in force or not."""
    _orders: list[OwnerTable | Take] = field(default_factory=list)
    _member: UpstreamMember = field(init=False)

    def __post_init__(self) -> None:
        self._member = UpstreamMember(
            self.group_id,
            self._metadata(),
            reason="groupferry shares its groups out",
            session_timeouts_ms=SESSION_TIMEOUTS_MS,
            spread=BEAT_INTERVAL_MS / HEARTBEAT_INTERVAL_MS,
        )

    @property
    def slot(self) -> int:
        """The slot that the table gives it; NO_SLOT if there is none."""
        seat = self._seat
        return NO_SLOT if seat is None else seat.slot

    @property
    def _seat(self) -> Seat | None:
        """The gateway's seat in the table. A process that has had its name before may have another
        one."""
        seat = None if self.table is None else self.table.seat_of(self.name)
        return seat if seat is not None and seat.stamp.startswith(f"{self.nonce}-") else None

    @property
    def trouble(self) -> str | None:
        """Why the cluster does not let it take part in the group at present."""
        match self._member.stage:
            case Out(refusal=Refusal() as refusal) | In(refusal=Refusal() as refusal):
                is_usual = refusal.meaning in (Meaning.CALLED, Meaning.GONE)
                return None if is_usual else refusal.reason
            case _:
                return None

    def leave_group(self) -> Struct | None:
        """The request that takes it out of the group; None if it is not certainly in it."""
        place = self._member.stage
        return self._member.leave(place.ids) if isinstance(place, In) else None

    @property
    def has_left(self) -> bool:
        """Whether it leaves, and all that others can take is theirs."""
        return (
            self.is_leaving
            and self._is_current
            and self.table is not None
            and self.holds <= self.table.shards_of(self.slot)
        )

    # -- what the gateway reports ----------------------------------------------------------------

    def learn_ports(self, broker_ports: Ports, node_ports: Ports, now_ms: int) -> None:
        """Announce where clients reach it."""
        if (broker_ports, node_ports) != (self._broker_ports, self._node_ports):
            self._broker_ports, self._node_ports = dict(broker_ports), dict(node_ports)
            self._announce(now_ms)

    def on_given_up(self, shard: int, now_ms: int) -> None:
        """A shard is closed, and nothing of it is on its way any more."""
        self.holds.discard(shard)
        self._announce(now_ms)

    def on_not_opened(self, shard: int, now_ms: int) -> None:
        """A shard could not be opened, or the cluster has fenced its writer. It is tried again
        later if it is still this gateway's."""
        self._try_again_ms[shard] = now_ms + TRY_AGAIN_MS
        self.on_given_up(shard, now_ms)

    def on_outrun(self) -> None:
        """A shard could not be opened because a later run has had it. It is reported as not opened
        as well."""
        self._outrun = None if self.table is None else self.table.first_run

    def begin_to_leave(self, now_ms: int) -> None:
        """Have others take all shards."""
        self.is_leaving = True
        self._announce(now_ms)

    def _announce(self, now_ms: int) -> None:
        self._changes += 1
        if self._must_join_ms is None:
            self._must_join_ms = now_ms

    # -- what it does next -----------------------------------------------------------------------

    def advance(self, now_ms: int) -> Struct | None:
        """The request that is due, if any. Its answer has to come in before the next one."""
        if self._member.awaits_answer or self.is_superseded:
            return None
        self._try_unopened_again(now_ms)
        match self._member.stage:
            case Out(retry_at_ms=at_ms) if now_ms >= at_ms:
                return self._join(now_ms)
            case In(beat_at_ms=at_ms):
                join_at_ms = self._join_at_ms()
                if join_at_ms is not None and now_ms >= join_at_ms:
                    return self._join(now_ms)
                if now_ms >= at_ms:
                    return self._member.beat(now_ms)
            case _:
                pass
        return None

    def next_ms(self) -> int | None:
        """When `advance` has something to do; None while it waits for an answer."""
        next_ms = self._member.next_ms()
        if next_ms is None:
            return None
        times = [next_ms, *self._try_again_ms.values()]
        if isinstance(self._member.stage, In) and (join_at_ms := self._join_at_ms()) is not None:
            times.append(join_at_ms)
        return min(times)

    def _join_at_ms(self) -> int | None:
        """When it joins again; None if no gateway waits for that. Shards that are still being given
        up are awaited for a while, so that all go in one round."""
        if self._must_join_ms is None:
            return None
        is_giving_up = self.table is not None and not self.holds <= self.table.shards_of(self.slot)
        return self._must_join_ms + (GIVE_UP_WAIT_MS if is_giving_up else 0)

    def take_orders(self) -> list[OwnerTable | Take]:
        """What the gateway has to do, in this order."""
        orders, self._orders = self._orders, []
        return orders

    def _join(self, now_ms: int) -> Struct:
        self._announced = self._announcement()
        self._must_join_ms = None
        self._member.join_metadata = self._metadata()
        return self._member.join(now_ms, member_id=self._member_id)

    def _announcement(self) -> Announcement:
        return Announcement(
            name=self.name,
            stamp=f"{self.nonce}-{self._changes}",
            address=self.address,
            process=self.process,
            slot=self.remembered_slot,
            is_leaving=self.is_leaving,
            broker_ports=self._broker_ports,
            node_ports=self._node_ports,
            holds=frozenset(self.holds),
            outrun=self._outrun,
            table=None if self.table is None else without_ports(self.table),
        )

    def _metadata(self) -> AnchorJoinMetadata:
        return AnchorJoinMetadata(
            protocol_type=PROTOCOL_TYPE,
            protocol=PROTOCOL,
            metadata=b"" if self._announced is None else encode(self._announced),
            instance_id=self.name,
        )

    # -- what becomes of it ----------------------------------------------------------------------

    def on_answer(self, answer: Struct, now_ms: int) -> Struct | None:
        """Take the answer to the latest request. Returns one that has to be sent right away."""
        request = self._member.on_answer(answer, now_ms)
        if request is not None:
            return request
        match self._member.stage:
            case Joined(round=joined) as stage:
                self._member_id = joined.member_id
                return None if stage.leads else self._member.sync({}, now_ms)
            case In() if isinstance(answer, SyncGroupResponse):
                self._follow(answer.assignment, now_ms)
            case In():
                self._join_again()
            case Out(refusal=Refusal() as refusal):
                self._on_refused(refusal, now_ms)
            case _:
                pass
        return None

    def on_no_answer(self, reason: str, now_ms: int) -> None:
        """The coordinator did not answer, or is unknown."""
        self._member.on_no_answer(reason, now_ms)
        self._join_again()

    def _join_again(self) -> None:
        """A JoinGroup that was not carried out has announced nothing. Without another one, a shard
        that this gateway has given up would wait for the next round, however long."""
        stage = self._member.stage
        if isinstance(stage, In) and self._member.joins and self._must_join_ms is None:
            self._must_join_ms = stage.beat_at_ms

    def _on_refused(self, refusal: Refusal, now_ms: int) -> None:
        if refusal.meaning is Meaning.GONE:
            self._member_id = NO_MEMBER
        if refusal.is_replaced:
            is_again = self._fenced_ms is not None and now_ms - self._fenced_ms < FENCED_WITHIN_MS
            self._fenced_ms = now_ms
            self.is_superseded |= is_again

    # -- the leader ------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether it has to deal the table of a round."""
        stage = self._member.stage
        return isinstance(stage, Joined) and stage.leads

    @property
    def needs_founding(self) -> bool:
        """Whether no gateway of the round knows a table, or no run of it would be the latest:
        another gateway has had the state log, or the cluster has forgotten the group since, and its
        generations have begun again."""
        newest = self._newest()
        if newest is None or newest.generation >= self._round.generation_id:
            return True
        outrun = (announced.outrun for announced in self._announcements().values())
        return newest.first_run in outrun

    def deal(self, founding: Founding | None, now_ms: int, wall_ms: int) -> Struct:
        """Deal the table of the round. Returns the request that hands it out. `founding`: what the
        first table needs. `wall_ms`: the wall clock."""
        announced = self._announcements()
        before, generation = self._newest(), self._round.generation_id
        if founding is not None:
            log_id, first_run = founding.log_id, founding.run_id - generation * SLOTS_MAX
            if before is None:
                before = FleetTable(
                    generation=generation,
                    log_id=log_id,
                    first_run=first_run,
                    seats=(),
                    owners=(NO_SLOT,) * self.shards,
                )
            before = before.model_copy(update={"log_id": log_id, "first_run": first_run})
        assert before is not None, "the first table needs to know its state log"
        self._dealt = deal(announced, before, generation=generation, now_ms=wall_ms)
        dealt = encode(self._dealt)
        round_members = (member.member_id for member in self._round.members)
        return self._member.sync(dict.fromkeys(round_members, dealt), now_ms)

    def abandon_round(self, reason: str, now_ms: int) -> None:
        """Leave the round to others: the table could not be dealt."""
        self._member.give_up(Refusal(Meaning.UNUSABLE, reason), now_ms)

    def _newest(self) -> FleetTable | None:
        return newest_table(tuple(self._announcements().values()), self._dealt)

    @property
    def _round(self) -> JoinGroupResponse:
        stage = self._member.stage
        assert isinstance(stage, Joined)
        return stage.round

    def _announcements(self) -> Mapping[str, Announcement]:
        """What the members of the round have announced. One whose announcement is unreadable gets
        no slot."""
        decoded = {
            member.member_id: decode(Announcement, member.metadata)
            for member in self._round.members
        }
        return {member_id: one for member_id, one in decoded.items() if one is not None}

    # -- the table -------------------------------------------------------------------------------

    def _follow(self, assignment: bytes, now_ms: int) -> None:
        table = decode(FleetTable, assignment)
        if table is not None:
            self.table = table
        if table is None or (seat := self._seat) is None:  # it was made for an earlier process
            self._announce(now_ms)
            return
        self.remembered_slot = seat.slot
        self._orders.append(OwnerTable(table.owners))
        if not self._is_current:
            self._announce(now_ms)
        self._grant()

    @property
    def _is_current(self) -> bool:
        """Whether the table was made from what it would announce now."""
        seat, announced = self._seat, self._announced
        if seat is None or announced is None or self._must_join_ms is not None:
            return False
        return seat.stamp == announced.stamp

    def _grant(self) -> None:
        """Open what the table grants, once for each table: its run belongs to what is opened at one
        time."""
        if not self._is_current or self.table is None:
            return
        granted = self.table.granted_to(self.slot) - self.holds - self._try_again_ms.keys()
        if granted:
            self.holds |= granted
            self._changes += 1  # no gateway waits for that
            run_id = self.table.run_of(self.slot)
            self._orders.append(Take(tuple(sorted(granted)), run_id))

    def _try_unopened_again(self, now_ms: int) -> None:
        """Have a table made that grants shards again which could not be opened."""
        due = [shard for shard, at_ms in self._try_again_ms.items() if at_ms <= now_ms]
        for shard in due:
            del self._try_again_ms[shard]
        if due:
            self._announce(now_ms)
