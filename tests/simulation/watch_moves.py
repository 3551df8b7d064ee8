"""Checks that no member is given up in a move while its client may still own partitions."""

from collections.abc import Sequence

from coordinator.engine import Step
from coordinator.interface.records import ClassicGroupMember, RemovalCause
from tests.simulation.client import Client
from tests.simulation.invariants import Invariant, require
from tests.simulation.watch_members import removed_members
from tests.simulation.whereabouts import Whereabouts
from tests.simulation.world import World


class MoveWatch:
    """Compares the members in the record of a move with the claims of their clients."""

    def __init__(self, world: World, clients: Sequence[Client], whereabouts: Whereabouts) -> None:
        self._world, self._clients, self._whereabouts = world, clients, whereabouts
        self._moving: dict[str, tuple[ClassicGroupMember, int]] = {}
        """The members in the record of a move, and since when they are."""

    def after_step(self, step: Step | None = None) -> None:
        """A step here has been applied, or the log was read. Whom a release removes, its record
        has."""
        moving, before = self._whereabouts.moving, self._moving
        for member_id, cause in removed_members(step).items() if step is not None else ():
            if cause is RemovalCause.RELEASED and member_id not in self._whereabouts.members:
                for client in self._owners_as(member_id):
                    require(client.is_told_gone, Invariant.MOVES, client.name, "is forgotten")
        for member_id in before.keys() - self._whereabouts.members if before else ():
            self._check_given_up(*before[member_id])
        now_ms = self._world.now_ms
        self._moving = {
            member_id: (member, before[member_id][1] if member_id in before else now_ms)
            for member_id, member in moving.items()
        }

    def after_step_of_cluster(self, step: Step) -> None:
        """In a move, the gateway does not make an otherwise unknown member leave. At other times a
        client has removed another one, as clients may."""
        if not self._moving:
            return
        for member_id, cause in removed_members(step).items():
            if cause is RemovalCause.LEFT and member_id not in self._whereabouts.members:
                for client in self._owners_as(member_id):
                    require(client.is_closing, Invariant.MOVES, client.name, "was removed")

    def _check_given_up(self, member: ClassicGroupMember, since_ms: int) -> None:
        """A client owns what it claims for a session after its last heartbeat, unless it does not
        rejoin within its rebalance timeout."""
        now_ms, session_ms = self._world.now_ms, member.session_timeout_ms
        is_overdue = now_ms - since_ms >= max(session_ms, member.rebalance_timeout_ms)
        for client in self._owners_as(member.member_id):
            is_silent = now_ms - client.confirmed_ms >= session_ms
            require(
                is_silent or is_overdue or client.is_told_gone,
                Invariant.MOVES,
                client.name,
                "is given up and owns",
                sorted(client.claims),
                "its session was confirmed at",
                client.confirmed_ms,
                "the move began at",
                since_ms,
            )

    def _owners_as(self, member_id: str) -> list[Client]:
        return [
            client
            for client in self._clients
            if client.is_honest and not client.is_dead and client.member_id == member_id
            if any(claim.member_id == member_id for claim in client.claims.values())
        ]
