"""Chooses the eager classic members that a new target disturbs (rule 9.4, DEV D81).

An eager client gives up all its partitions in order to rejoin, so it costs as much to take one
partition from it, or to give it one, as to give it another share. Members that have exactly their
target are therefore spared, as long as the others can share the rest within bounds.
"""

from coordinator.group.target_loads import Loads


def release(spared: Loads, others: Loads, total: int, imbalance_percent: int) -> int:
    """Move as few members as possible from `spared` to `others`, so that these can share the rest
    of `total` partitions within the bounds. Returns the number of partitions that they share.

    The bounds are the even share, rounded down and up, less and plus `imbalance_percent` of it. No
    member gets nothing that would have something otherwise.
    """
    count = len(spared) + len(others)
    slack = total * imbalance_percent // (100 * count)
    share = total // count
    load_min, load_max = max(share - slack, min(share, 1)), -(-total // count) + slack
    rest = total - spared.total()
    for member_id in [*spared.above(load_max), *spared.below(load_min)]:
        rest += spared.move(member_id, others)
    while rest > load_max * len(others):
        rest += spared.move(spared.lightest(), others)
    while spared and rest < load_min * len(others):
        rest += spared.move(spared.heaviest(), others)
    return rest
