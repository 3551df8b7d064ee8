"""Common protocols of a group's members, and the choice among them (rule 2.5)."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from coordinator.interface.records import Protocols, protocol_names


def supported_by_all(lists: Iterable[Protocols]) -> frozenset[str]:
    """The protocol names that every list contains; empty if there is no list."""
    common: frozenset[str] | None = None
    for protocols in lists:
        offered = frozenset(protocol_names(protocols))
        common = offered if common is None else common & offered
    return common or frozenset()


def is_acceptable(offered: Protocols, offers: Mapping[str, int], member_count: int) -> bool:
    """Whether a member with this list may join `member_count` members; `offers` counts those that
    offer each protocol (rule 2.2 row 7).

    DEV D38: a list with a repeated name is refused, because its metadata is ambiguous. Kafka fails
    on it later.
    """
    candidates = protocol_names(offered)
    if len(candidates) < len(offered):
        return False
    if not member_count:
        return bool(offered)
    return any(offers.get(name) == member_count for name in candidates)


def select_protocol(lists: Sequence[Protocols]) -> str:
    """The protocol with most votes. Each member votes for its first protocol that all support.

    The alphabetically first name wins a tie, so that the choice is reproducible.
    """
    candidates = supported_by_all(lists)
    votes = Counter(
        next(name for name in protocol_names(protocols) if name in candidates)
        for protocols in lists
    )
    return max(sorted(votes), key=lambda name: votes[name])
