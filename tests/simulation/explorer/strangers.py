"""Consumers and admins in the cluster itself, and the loss of the group to them."""

from collections.abc import Callable

from coordinator.interface.events import (
    HeartbeatReceived,
    LeaveGroupReceived,
    Leaver,
    SyncGroupReceived,
)
from coordinator.interface.records import ClassicGroupMember, Member
from gateway.hosting.anchor import GENERATIONS_OF_A_CONSUMER
from tests.simulation.explorer.small_consumers import SESSION_TIMEOUT_MS
from tests.simulation.explorer.small_world import World
from tests.simulation.intruder import join_of_intruder


def may_be_taken(world: World) -> bool:
    """Whether another client had the group, or the anchor cannot tell: if it was removed twice,
    as many generations have begun as with a consumer."""
    held = world.port.held_generation
    begun = world.generation - held if held is not None else 0
    return world.has_strangers or begun >= GENERATIONS_OF_A_CONSUMER


def void_leases(world: World) -> None:
    """The members are fenced without a word to them, because another client has the group: each
    learns it with its next heartbeat (DEV D36)."""
    for consumer in world.consumers.values():
        if consumer is not None:
            consumer.lease_over_ms = world.now_ms
            consumer.has_lost_group = consumer.epoch > 0
    for token, passing in world.passing.items():
        passing.is_of_lost_group |= world.port.is_confirming(token)


def fence(world: World, member_id: str) -> None:
    """A member, as with Kafka, that did not rejoin in time owns nothing, and learns it later."""
    for consumer in world.consumers.values():
        if consumer is not None and consumer.member_id == member_id:
            consumer.is_fenced, consumer.lease_over_ms = True, 0


def intrude(world: World) -> None:
    """A consumer joins the empty group in the cluster."""
    world.has_strangers = True
    token = world.new_token()
    join = join_of_intruder(token, SESSION_TIMEOUT_MS)
    world.ask_cluster(join)
    (member_id,) = world.members_in_cluster
    sync = SyncGroupReceived(
        token=world.new_token(),
        version=3,
        member_id=member_id,
        instance_id=None,
        generation=world.generation,
        protocol_type=None,
        protocol_name=None,
        assignments=(),
    )
    world.ask_cluster(sync)


def keep_intruder(world: World) -> None:
    if world.has_intruder:
        (member_id,) = world.members_in_cluster
        world.ask_cluster(
            HeartbeatReceived(
                token=world.new_token(),
                member_id=member_id,
                instance_id=None,
                generation=world.generation,
            )
        )


def remove(world: World, concerns: Callable[[ClassicGroupMember | Member], bool]) -> None:
    """Members leave the group in the cluster, or an admin removes them."""
    leavers = tuple(
        Leaver(member_id=member.member_id, instance_id=member.instance_id)
        for member in world.members_in_cluster.values()
        if concerns(member)
    )
    world.ask_cluster(LeaveGroupReceived(token=world.new_token(), members=leavers))
