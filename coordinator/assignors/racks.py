"""Brings partitions to members in the racks of their replicas (rule 9.5, DEV D84).

Members exchange partitions, so every member keeps the number of its partitions. A partition is *at
home* in the racks of its replicas. For one that is not, a search finds the shortest chain of
partitions that each move to a rack in which they are at home, where the last one takes the place of
the first, or makes room as one that is not at home either. If there is no such chain, no exchange
whatever brings more partitions home.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, GroupSpec, Racks, Target
from coordinator.interface.topics import Partition

LOOKS_MAX = 1_000_000
"""How many sets of racks all searches look at together: about a second. Clusters have few racks; if
each broker has one of its own, some partitions of a large group may stay where they are."""

Place = tuple[str, Racks]
"""A rack, and the homes of one of the partitions there."""

NO_RACK = ""
"""Where members without a rack are. Nothing is at home there."""


def near(spec: GroupSpec, changed: Target) -> Target:
    """The changes of a target, after members with equal subscriptions have exchanged partitions.
    Spared ones (rule 9.4) exchange nothing."""
    rack_of = spec.rack_of
    if not rack_of:
        return changed
    spared = frozenset(spec.spared if spec.imbalance_percent is not None else ()) - changed.keys()
    alike: dict[frozenset[UUID], dict[str, set[Partition]]] = {}
    for member_id, member in spec.members.items():
        if member_id in spared:
            continue
        partitions = changed.get(member_id, spec.target.get(member_id, NOTHING))
        alike.setdefault(member.topic_ids, {})[member_id] = set(partitions)
    for shares in alike.values():
        bring_home(shares, rack_of, spec.racks_of)
    return spec.changes_to(
        {id_: partitions for shares in alike.values() for id_, partitions in shares.items()}
    )


def bring_home(
    shares: Mapping[str, set[Partition]],
    rack_of: Mapping[str, str],
    racks_of: Callable[[Partition], Racks],
) -> None:
    """Exchange partitions between members, so that as many as possible are at home."""
    racks = frozenset(rack_of[member_id] for member_id in shares if member_id in rack_of)
    if racks:
        _Exchange(shares, rack_of, lambda partition: racks_of(partition) & racks).run()


class _Exchange:
    """The partitions by the rack of their member, and by the racks in which they are at home."""

    def __init__(
        self,
        shares: Mapping[str, set[Partition]],
        rack_of: Mapping[str, str],
        homes_of: Callable[[Partition], Racks],
    ) -> None:
        self._shares, self._rack_of, self._homes_of = shares, rack_of, homes_of
        self._owners: dict[Partition, str] = {}
        self._at: dict[str, dict[Racks, list[Partition]]] = {}
        self._looks = 0
        for member_id in sorted(shares):
            for partition in sorted(shares[member_id]):
                self._put(partition, member_id)

    def run(self) -> None:
        """Bring home what can be brought home. What finds no chain finds none later either."""
        all_homes = {homes for by_homes in self._at.values() for homes in by_homes}
        for homes in sorted(all_homes, key=sorted):
            while (rack := self._rack_abroad(homes)) is not None:
                chain = self._chain(rack, homes)
                if chain is None:
                    break
                self._move(chain)

    def _put(self, partition: Partition, member_id: str) -> None:
        self._owners[partition] = member_id
        self._shares[member_id].add(partition)
        here = self._at.setdefault(self._rack_of.get(member_id, NO_RACK), {})
        here.setdefault(self._homes_of(partition), []).append(partition)

    def _rack_abroad(self, homes: Racks) -> str | None:
        """A rack that has partitions with these homes, and is none of them."""
        if not homes:
            return None
        others = sorted(self._at.keys() - homes)
        return next((rack for rack in others if homes in self._at[rack]), None)

    def _chain(self, start: str, homes: Racks) -> list[Place] | None:
        """The places of partitions that move: each to the next place, the last to the first."""
        came_from: dict[str, Place] = dict.fromkeys(sorted(homes), (start, homes))
        reached = deque(came_from)
        while reached and self._looks < LOOKS_MAX:
            rack = reached.popleft()
            if rack == start:
                return _back(came_from, rack, start)
            here = self._at.get(rack, {})
            self._looks += len(here)
            abroad = [others for others in here if rack not in others]
            if abroad:
                leaves = max(abroad, key=lambda others: start in others)
                return [*_back(came_from, rack, start), (rack, leaves)]
            for others in here:
                for further in sorted(others - came_from.keys()):
                    came_from[further] = (rack, others)
                    reached.append(further)
        return None

    def _move(self, chain: Sequence[Place]) -> None:
        """Let a partition of each place go where the next one's was."""
        moving = [self._take(rack, homes) for rack, homes in chain]
        owners = [self._owners[partition] for partition in moving]
        for partition, owner in zip(moving, owners, strict=True):
            self._shares[owner].remove(partition)
        for partition, receiver in zip(moving, owners[1:] + owners[:1], strict=True):
            self._put(partition, receiver)

    def _take(self, rack: str, homes: Racks) -> Partition:
        alike = self._at[rack][homes]
        partition = alike.pop()
        if not alike:
            del self._at[rack][homes]
        return partition


def _back(came_from: Mapping[str, Place], rack: str, start: str) -> list[Place]:
    """The places from the start of a search to the one before this rack."""
    places: list[Place] = []
    while not places or rack != start:
        places.append(came_from[rack])
        rack = places[-1][0]
    return places[::-1]
