"""Bugs of leases and of the machine that shares out shards. The world of two owners finds them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from gateway.fleet import table as table_module
from gateway.fleet.member import NO_SLOT
from gateway.fleet.ownership import ShardOwnership
from gateway.fleet.table import Announcement, FleetTable, GoneSlot, Seat
from gateway.state_log.kafka import lease as lease_module
from gateway.state_log.kafka.lease import Lease

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug."""

    plant: Callable[[Patch], None]

    @property
    def name(self) -> str:
        """Its name in the tests."""
        return self.plant.__name__


# -- the lease -----------------------------------------------------------------------------------


def a_lease_is_not_looked_at(patch: Patch) -> None:
    """An owner answers as long as it does not know that it has been fenced."""
    patch.setattr(Lease, "is_running", property(lambda _lease: True))


def a_lease_counts_from_the_answer(patch: Patch) -> None:
    """Between a write and its answer the process may have been paused."""

    def renew(lease: Lease, _asked_ms: int) -> None:
        lease._until_ms = lease_module.now_ms() + lease.length_ms

    patch.setattr(Lease, "renew", renew)


def a_lease_is_longer_than_a_session(patch: Patch) -> None:
    """A new owner removes members before the former one has stopped answering."""

    def renew(lease: Lease, asked_ms: int) -> None:
        lease._until_ms = max(lease._until_ms, asked_ms + 20 * lease.length_ms)

    patch.setattr(Lease, "renew", renew)


# -- who has a shard -----------------------------------------------------------------------------


def a_shard_is_granted_that_another_gateway_holds(patch: Patch) -> None:
    """The owner opens it in the round in which the other one is told to give it up."""
    patch.setattr(FleetTable, "granted_to", FleetTable.shards_of)


def a_gateway_does_not_announce_what_it_holds(patch: Patch) -> None:
    """Others are granted what it has not closed yet."""
    announce = ShardOwnership._announcement

    def without_holds(owned: ShardOwnership) -> Announcement:
        return announce(owned).model_copy(update={"holds": frozenset()})

    patch.setattr(ShardOwnership, "_announcement", without_holds)


def a_run_does_not_grow_with_the_generation(patch: Patch) -> None:
    """The next owner of a shard has a run that is not greater than the last one's."""
    patch.setattr(FleetTable, "run_of", lambda table, slot: table.first_run + slot)


def two_gateways_get_one_slot(patch: Patch) -> None:
    """Both open shards in the same run, and clients find them under the same ids."""
    assign = table_module._assign_slots

    def of_one_slot(
        announcements: Mapping[str, Announcement], before: FleetTable, now_ms: int
    ) -> tuple[Mapping[str, int], tuple[GoneSlot, ...]]:
        slots, gone = assign(announcements, before, now_ms)
        return dict.fromkeys(slots, min(slots.values())), gone

    patch.setattr(table_module, "_assign_slots", of_one_slot)


def one_gateway_gets_all_shards(patch: Patch) -> None:
    """The others serve no groups."""

    def give_all(
        seats: Sequence[Seat], _holds: Mapping[int, frozenset[int]], before: FleetTable
    ) -> tuple[int, ...]:
        serving = [seat.slot for seat in seats if seat.serves]
        return (min(serving, default=NO_SLOT),) * len(before.owners)

    patch.setattr(table_module, "_assign_shards", give_all)


def a_gone_slot_is_given_to_another_address(patch: Patch) -> None:
    """Clients do not notice that a coordinator node has moved to another address."""
    assign = table_module._assign_slots

    def without_gone(
        announcements: Mapping[str, Announcement], before: FleetTable, now_ms: int
    ) -> tuple[Mapping[str, int], tuple[GoneSlot, ...]]:
        living = {(one.name, one.address) for one in announcements.values()}
        seats = tuple(seat for seat in before.seats if (seat.name, seat.address) in living)
        forgetful = before.model_copy(update={"gone": (), "seats": seats})
        return assign(announcements, forgetful, now_ms)

    patch.setattr(table_module, "_assign_slots", without_gone)


# -- the way back to rest ------------------------------------------------------------------------


def a_lost_shard_counts_as_held(patch: Patch) -> None:
    """A gateway that the cluster has fenced in a shard never opens it again."""

    def on_not_opened(owned: ShardOwnership, _shard: int, now_ms: int) -> None:
        owned._announce(now_ms)

    patch.setattr(ShardOwnership, "on_not_opened", on_not_opened)


def a_gateway_outside_is_never_outrun(patch: Patch) -> None:
    """A fleet whose shards a gateway outside has had in a later run founds no new runs."""
    patch.setattr(ShardOwnership, "on_outrun", lambda _owned: None)


BUGS = tuple(
    map(
        Bug,
        (
            a_lease_is_not_looked_at,
            a_lease_counts_from_the_answer,
            a_lease_is_longer_than_a_session,
            a_shard_is_granted_that_another_gateway_holds,
            a_gateway_does_not_announce_what_it_holds,
            a_run_does_not_grow_with_the_generation,
            two_gateways_get_one_slot,
            one_gateway_gets_all_shards,
            a_gone_slot_is_given_to_another_address,
            a_lost_shard_counts_as_held,
            a_gateway_outside_is_never_outrun,
        ),
    )
)
