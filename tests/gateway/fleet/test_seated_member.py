"""Where clients find the nodes of a fleet on several machines."""

from gateway.fleet.member import NO_SLOT, coordinator_id
from gateway.fleet.seated_member import SeatedMember
from gateway.fleet.table import FleetTable, GatewayAddress, GoneSlot, Seat

BROKERS = range(1, 41)


def seat(
    slot: int,
    *,
    host: str = "",
    process: int = 0,
    is_leaving: bool = False,
    brokers: range = BROKERS,
) -> Seat:
    """A gateway at an address of its own, unless told otherwise."""
    return Seat(
        name=f"g{slot}",
        member_id=f"g{slot}-id",
        stamp="0",
        slot=slot,
        address=GatewayAddress(host=host or f"host{slot}", port=9092),
        process=process,
        is_leaving=is_leaving,
        broker_ports={broker: 10_000 + broker for broker in brokers},
        node_ports={broker: 20_000 + broker for broker in brokers},
    )


def member(*seats: Seat, gone: tuple[GoneSlot, ...] = ()) -> SeatedMember:
    """The view of the first gateway, which owns all shards."""
    table = FleetTable(
        generation=1, log_id="log", first_run=0, seats=seats, owners=(seats[0].slot,) * 4, gone=gone
    )
    return SeatedMember(
        slot=seats[0].slot, slots=1, shards=4, owners=list(table.owners), table=table
    )


def hosts(view: SeatedMember) -> list[str]:
    """The host of each broker's node."""
    addresses = [view.address_of(broker) for broker in BROKERS]
    return [address[0] for address in addresses if address is not None]


def test_every_gateway_shows_the_same_addresses_and_each_serves_some() -> None:
    """The table decides, not who is asked."""
    seats = [seat(0), seat(1), seat(2)]
    views = [hosts(member(*seats[number:], *seats[:number])) for number in range(3)]
    assert views[0] == views[1] == views[2]
    assert set(views[0]) == {"host0", "host1", "host2"}


def test_a_gateway_that_goes_moves_only_the_brokers_that_it_served() -> None:
    """One that leaves serves none as long as there is another one."""
    before, after = hosts(member(seat(0), seat(1), seat(2))), hosts(member(seat(0), seat(2)))
    moved = {old for old, new in zip(before, after, strict=True) if old != new}
    assert moved == {"host1"}
    assert hosts(member(seat(0), seat(1, is_leaving=True), seat(2))) == after
    assert set(hosts(member(seat(1, is_leaving=True)))) == {"host1"}


def test_the_nodes_of_a_gateway_that_has_gone_are_at_a_living_address() -> None:
    """The nodes keep their ids. The nodes of an unknown slot have no address."""
    gone = GoneSlot(slot=1, address=GatewayAddress(host="host1", port=9092), until_ms=1)
    view = member(seat(0), seat(2), gone=(gone,))
    assert list(view.coordinator_ids(7)) == [coordinator_id(slot, 7) for slot in (0, 1, 2)]
    assert view.address_of(coordinator_id(1, 7)) in (("host0", 20_007), ("host2", 20_007))
    assert view.address_of(coordinator_id(2, 7)) == ("host2", 20_007)
    assert view.address_of(coordinator_id(3, 7)) is None


def test_a_broker_that_nobody_has_a_port_for_has_no_coordinator_node_yet() -> None:
    """Its clients wait for one, and so do those of a shard without an owner."""
    view = member(seat(0), seat(1))
    assert view.node_of("g", 7) == coordinator_id(0, 7)
    assert list(view.coordinator_ids(99)) == []
    assert view.node_of("g", 99) is None
    assert view.address_of(99) is None
    view.learn_owners([NO_SLOT] * 4)
    assert view.node_of("g", 7) is None
    assert not view.owns("g")


def test_the_processes_of_a_machine_are_told_from_gateways_elsewhere() -> None:
    """Operators reach any process of this machine, and learn where others are."""
    view = member(seat(3), seat(5, host="host3", process=1), seat(4))
    assert view.process == 0
    assert [view.process_in(slot) for slot in (3, 5, 4, 9)] == [0, 1, None, None]
    assert list(view.other_slots()) == [5, 4]
    view.learn_owners([4] * 4)
    assert view.process_of("g") is None
    assert view.name_owner("g") == "gateway g4 at host4:9092"
    view.learn_owners([NO_SLOT] * 4)
    assert view.process_of("g") is None
    assert view.name_owner("g") == "no gateway of the fleet yet"


def test_a_machine_serves_its_brokers_as_long_as_one_of_its_processes_stays() -> None:
    """Its processes share the port."""
    here = [seat(slot, host="host0", process=slot) for slot in (0, 1)]
    before = hosts(member(*here, seat(2)))
    leaving = seat(0, host="host0", is_leaving=True)
    assert hosts(member(leaving, here[1], seat(2))) == before
    assert set(before) == {"host0", "host2"}


def test_a_gateway_is_seen_since_its_process_came() -> None:
    """A new process of the same gateway counts from its own start. What has gone is forgotten."""
    first, second = seat(0), seat(1)
    view = member(first, second)
    others = [second.model_copy(update={"stamp": stamp}) for stamp in ("old-1", "old-2", "new-1")]
    for now_ms, other in enumerate(others):
        view.follow(view.table.model_copy(update={"seats": (first, other)}), now_ms)
        assert view.seen_ms[other.process_key] == (2 if now_ms == 2 else 0)
    assert view.seen_ms.keys() == {first.process_key, "new"}
