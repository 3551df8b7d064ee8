"""How the leader of a fleet deals slots and shards."""

import zlib
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from gateway.fleet.member import NO_SLOT
from gateway.fleet.table import (
    DECODED_BYTES_MAX,
    GONE_MS,
    SLOTS_MAX,
    Announcement,
    FleetTable,
    GatewayAddress,
    deal,
    decode,
    encode,
    newest_table,
    without_ports,
)

SHARDS = 16
EMPTY = FleetTable(
    generation=0, log_id="log", first_run=5_000_000, seats=(), owners=(NO_SLOT,) * SHARDS
)


def announce(name: str, table: FleetTable = EMPTY, **fields: object) -> Announcement:
    """A gateway that serves, and holds what the table grants it."""
    seat = table.seat_of(name)
    known: dict[str, object] = {
        "stamp": f"{name}-{table.generation}",
        "address": GatewayAddress(host=name, port=9092),
        "node_ports": {1: 9094},
        "broker_ports": {1: 9093},
        "holds": frozenset() if seat is None else table.granted_to(seat.slot),
        "table": table,
    }
    return Announcement.model_validate({"name": name, **known, **fields})


def deal_to(*announced: Announcement, before: FleetTable = EMPTY, now_ms: int = 0) -> FleetTable:
    """The table after one more round."""
    members = {f"{one.name}-id": one for one in announced}
    return deal(members, before, generation=before.generation + 1, now_ms=now_ms)


def loads_of(table: FleetTable) -> Mapping[str, int]:
    """How many shards each gateway owns."""
    return {seat.name: len(table.shards_of(seat.slot)) for seat in table.seats}


@given(st.lists(st.sets(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=6))
def test_shares_are_even_and_as_few_shards_move_as_possible(rounds: list[set[str]]) -> None:
    """This holds whichever gateways come and go. No gateway gets more than it has to, and only one
    that has too many, or has gone, loses any."""
    table = EMPTY
    for names in rounds:
        before = table
        table = deal_to(*(announce(name, before) for name in sorted(names)), before=before)
        loads = loads_of(table)
        assert sum(loads.values()) == SHARDS
        assert max(loads.values()) - min(loads.values()) <= 1
        ceiling, at_ceiling = max(loads.values()), [*loads.values()].count(max(loads.values()))
        slots = {seat.name: seat.slot for seat in before.seats}
        had = sorted(len(before.shards_of(slots[name])) for name in names & slots.keys())[::-1]
        kept_at_best = sum(
            min(load, ceiling if rank < at_ceiling else min(loads.values()))
            for rank, load in enumerate(had)
        )
        kept_count = sum(
            table.owners[shard] == before.owners[shard] != NO_SLOT
            and any(seat.slot == before.owners[shard] for seat in table.seats)
            for shard in range(SHARDS)
        )
        assert kept_count == kept_at_best


@given(
    st.lists(
        st.tuples(
            st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from((1, 2))), min_size=1),
            st.sampled_from((0, 1_000, GONE_MS)),
        ),
        max_size=8,
    )
)
def test_a_slot_never_changes_its_address_until_it_has_been_gone_for_long(
    rounds: list[tuple[set[tuple[str, int]], int]],
) -> None:
    """Whatever gateways remember, and wherever they come back."""
    table, now_ms = EMPTY, 0
    owners: dict[int, tuple[GatewayAddress, int]] = {}
    memories: dict[GatewayAddress, int] = {}
    for gateways, delay_ms in rounds:
        now_ms += delay_ms
        announced = []
        for name, port in dict(sorted(gateways)).items():
            address = GatewayAddress(host=name, port=port)
            slot = memories.get(address, NO_SLOT)
            announced.append(announce(name, table, address=address, slot=slot))
        table = deal_to(*announced, before=table, now_ms=now_ms)
        assert len({seat.slot for seat in table.seats}) == len(announced)
        for seat in table.seats:
            address, seen_ms = owners.get(seat.slot, (seat.address, now_ms))
            assert address == seat.address or now_ms - seen_ms >= GONE_MS
            owners[seat.slot] = seat.address, now_ms
            memories[seat.address] = seat.slot


def test_a_shard_is_granted_once_its_last_holder_has_given_it_up() -> None:
    """Its owner stands in the table before that, so that clients look for it there."""
    table = deal_to(announce("a"))
    table = deal_to(announce("a", table), announce("b", table), before=table)
    b = table.seat_of("b")
    assert b is not None
    moving = table.shards_of(b.slot)
    assert (len(moving), table.granted_to(b.slot)) == (SHARDS // 2, frozenset())
    held = frozenset(range(SHARDS)) - moving
    table = deal_to(announce("a", table, holds=held), announce("b", table), before=table)
    assert table.granted_to(b.slot) == moving


def test_what_a_member_may_have_opened_since_it_joined_is_not_granted() -> None:
    """The cluster repeats the announcement of a static member that is late in a round."""
    late = announce("a", stamp="late")
    table = deal_to(late)
    a = table.seat_of("a")
    assert a is not None
    assert len(table.granted_to(a.slot)) == SHARDS
    table = deal_to(late, announce("b", table), before=table)
    b = table.seat_of("b")
    assert b is not None
    assert table.shards_of(b.slot)
    assert not table.granted_to(b.slot)


def test_a_gateway_that_leaves_gets_nothing_unless_it_is_the_last() -> None:
    """A gateway that does not serve yet gets nothing either."""
    table = deal_to(announce("a", is_leaving=True), announce("b"), announce("c", node_ports={}))
    assert loads_of(table) == {"a": 0, "b": SHARDS, "c": 0}
    table = deal_to(announce("a", is_leaving=True), announce("c", node_ports={}))
    assert loads_of(table) == {"a": SHARDS, "c": 0}
    assert deal_to(announce("c", node_ports={})).owners == (NO_SLOT,) * SHARDS


def test_there_are_not_more_seats_than_slots() -> None:
    """A later gateway has none until another has been gone for long."""
    many = [announce(f"{number:03}") for number in range(SLOTS_MAX + 1)]
    assert len(deal_to(*many).seats) == SLOTS_MAX


def test_runs_grow_from_table_to_table() -> None:
    """Each gateway has its own."""
    first, second = (EMPTY.model_copy(update={"generation": number}) for number in (1, 2))
    runs = [table.run_of(slot) for table in (first, second) for slot in (0, SLOTS_MAX - 1)]
    assert runs == sorted(set(runs))
    assert newest_table([announce("a", second), announce("b", first)], first) == second


def test_what_is_no_announcement_is_none() -> None:
    """Any client may join the group. Nothing larger than the limit is unpacked."""
    table = deal_to(announce("a"))
    assert decode(FleetTable, encode(table)) == table
    announced = announce("a", without_ports(table))
    assert decode(Announcement, encode(announced)) == announced
    for data in (b"", b"\0", b"x" * 100, encode(table), zlib.compress(b"0" * DECODED_BYTES_MAX)):
        assert decode(Announcement, data) is None
