"""The uniform assignor: balances the number of partitions with as few moves as possible (rule 9.1).

Balance takes precedence over stickiness. With equal subscriptions loads differ by at most one,
unless eager members are spared, and the cost follows the change: it visits only members whose load
changes.
"""

from collections.abc import Mapping
from itertools import chain, islice
from uuid import UUID

from coordinator.assignors.group_spec import NOTHING, GroupSpec, Target
from coordinator.assignors.heterogeneous import assign_heterogeneously
from coordinator.assignors.racks import near
from coordinator.assignors.sparing import release
from coordinator.group.target_loads import Loads
from coordinator.interface.topics import Partition


def assign_uniformly(spec: GroupSpec) -> Target:
    """Keep as much of the old target as balance allows, and distribute the rest."""
    if not spec.members:
        return {}
    balanced = _balance(spec)
    return near(spec, balanced) if spec.racks else balanced


def _balance(spec: GroupSpec) -> Target:
    """A balanced target that ignores racks."""
    if not spec.is_homogeneous:
        return assign_heterogeneously(spec)
    counts = {topic_id: spec.partition_count(topic_id) for topic_id in spec.subscriber_counts}
    changed = _without_lost_partitions(spec, counts)
    loads, spared = spec.loads.fork(), spec.spared.fork()
    for member_id, share in changed.items():
        spared.drop(member_id)
        loads.put(member_id, len(share))
    rest = sum(counts.values())
    if spared:
        rest = release(spared, loads, rest, spec.imbalance_percent or 0)
    free = [
        partition
        for topic_id in sorted(counts)
        for partition in spec.owners.missing(topic_id, counts[topic_id])
    ]
    receivers: dict[str, int] = {}
    for member_id, load in _new_loads(loads, rest).items():
        partitions = sorted(changed.get(member_id, spec.target.get(member_id, NOTHING)))
        changed[member_id] = frozenset(partitions[:load])
        free += partitions[load:]
        receivers[member_id] = load - len(partitions)
    supply = iter(free)
    for member_id, lacking in receivers.items():
        changed[member_id] |= frozenset(islice(supply, max(0, lacking)))
    return changed


def _without_lost_partitions(
    spec: GroupSpec, counts: Mapping[UUID, int]
) -> dict[str, frozenset[Partition]]:
    """The remaining target of members that lost partitions, because these no longer exist or are no
    longer subscribed."""
    remaining: dict[str, set[Partition]] = {}
    for partition in spec.owners.beyond(counts):
        member_id = spec.owners[partition]
        remaining.setdefault(member_id, set(spec.target[member_id])).remove(partition)
    return {member_id: frozenset(partitions) for member_id, partitions in remaining.items()}


def _new_loads(loads: Loads, total: int) -> dict[str, int]:
    """The new loads of the members whose load must change, so that all these loads differ by at
    most one.

    Members that already have the larger load keep it. (KAFKA-18688: the first members got it, and
    partitions moved needlessly.)
    """
    if not loads:
        return {}
    share, extra = divmod(total, len(loads))
    heavy, light = list(loads.above(share + 1)), list(loads.below(share))
    new = dict.fromkeys(heavy, share + 1)
    surplus = loads.count_above(share) - extra
    if surplus > 0:
        give_up_the_one_more = chain(loads.at(share + 1), reversed(heavy))
        new |= dict.fromkeys(islice(give_up_the_one_more, surplus), share)
    else:
        get_the_one_more = chain(loads.at(share), light)
        new |= dict.fromkeys(islice(get_the_one_more, -surplus), share + 1)
    return new | {member_id: share for member_id in light if member_id not in new}
