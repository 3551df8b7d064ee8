"""Which process has which groups, and the ids of coordinator nodes."""

import pytest

from gateway.fleet.member import (
    BROKER_ID_MAX,
    SHARDS,
    FleetMember,
    broker_of,
    coordinator_id,
    is_coordinator,
    shard_of,
)

INT32_MAX = (1 << 31) - 1


def members(slots: int, shards: int = SHARDS) -> list[FleetMember]:
    """All processes of a fleet."""
    return [FleetMember(slot=slot, slots=slots, shards=shards) for slot in range(slots)]


@pytest.mark.parametrize("slots", [1, 2, 3, 5, 16])
def test_each_shard_has_exactly_one_owner(slots: int) -> None:
    """None is left out, and no two processes open the same."""
    owned = [shard for member in members(slots) for shard in member.own_shards]
    assert sorted(owned) == list(range(SHARDS))


@pytest.mark.parametrize("slots", [1, 2, 3, 16])
def test_each_group_belongs_to_the_process_that_has_its_shard(slots: int) -> None:
    """All processes agree, and the state of the group is where it is looked for."""
    fleet = members(slots)
    for number in range(200):
        group_id = f"group-{number}"
        (owner,) = (member for member in fleet if member.owns(group_id))
        assert shard_of(group_id, SHARDS) in owner.own_shards
        assert {member.slot_of(group_id) for member in fleet} == {owner.slot}


def test_the_shard_of_a_group_never_changes() -> None:
    """Files on disk depend on it."""
    group_ids = ("orders", "payments", "", "größe", "\udc80")
    assert [shard_of(group_id, 16) for group_id in group_ids] == [14, 2, 0, 9, 11]


def test_the_groups_are_spread_over_the_shards() -> None:
    """A thousand similar names leave no shard with a multiple of its part."""
    counts = [0] * SHARDS
    for number in range(1_600):
        counts[shard_of(f"service-{number}", SHARDS)] += 1
    assert min(counts) > 50
    assert max(counts) < 150


def test_ids_of_coordinator_nodes_differ_from_each_other_and_from_those_of_brokers() -> None:
    """The ids fit into the protocol's four bytes, and lead back to their broker."""
    brokers = (0, 1, 1001, BROKER_ID_MAX)
    ids = {
        node_id: broker
        for broker in brokers
        for node_id in members(SHARDS)[0].coordinator_ids(broker)
    }
    assert len(ids) == len(brokers) * SHARDS
    assert all(BROKER_ID_MAX < node_id <= INT32_MAX for node_id in ids)
    assert all(is_coordinator(node_id) for node_id in ids)
    assert all(broker_of(node_id) == broker for node_id, broker in ids.items())
    assert [broker_of(broker) for broker in brokers] == list(brokers)


def test_a_member_lists_a_broker_before_its_coordinator_nodes() -> None:
    """Brokers are the first to get ports."""
    assert members(2)[1].own_node_ids(7) == (7, coordinator_id(0, 7), coordinator_id(1, 7))
