"""Which client-side assignor a group uses, and who can run it (rule 9.7).

What counts is what each member offers: the assignors that it supports, preferred first. Many
members offer the same, so a group counts its members by what they offer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coordinator.interface.records import Member, protocol_names

CLASSIC_VERSION = -1
"""The version of a classic member's metadata, the user data of its subscription."""


class Offer(NamedTuple):
    """An assignor that a member supports: the versions of metadata that it can handle, and that of
    its own. Classic members run none."""

    name: str
    minimum: int
    maximum: int
    version: int
    is_native: bool = True


Offers = tuple[Offer, ...]


def offers_of(member: Member) -> Offers:
    """What a member offers. The protocols of a classic member are assignors (KIP-848, "JoinGroup
    Handling")."""
    if member.classic is not None:
        only = CLASSIC_VERSION
        names = protocol_names(member.classic.protocols)
        return tuple(Offer(name, only, only, only, is_native=False) for name in names)
    return tuple(
        Offer(each.name, each.minimum_version, each.maximum_version, each.version)
        for each in member.client_assignors
    )


def selected(counts: Mapping[Offers, int]) -> str | None:
    """The assignor that all members support, that some member can run, and that most prefer among
    such; by name in a tie. None if there is no such assignor."""
    common = next(iter(counts), ())
    candidates = {
        name for name, *_ in common if any(can_run(offers, name, counts) for offers in counts)
    }
    votes: Counter[str] = Counter()
    for offers, count in counts.items():
        preferred = next((name for name, *_ in offers if name in candidates), None)
        if preferred is not None:
            votes[preferred] += count
    return max(sorted(votes), key=votes.__getitem__, default=None)


def can_run(offers: Offers, assignor: str, counts: Mapping[Offers, int]) -> bool:
    """Whether a member that offers this can run the assignor: it handles the metadata of all
    members. False if some member does not support the assignor."""
    mine = offer_for(assignor, offers)
    if mine is None or not mine.is_native:
        return False
    every = [offer_for(assignor, others) for others in counts]
    return all(each and mine.minimum <= each.version <= mine.maximum for each in every)


def overlap(mine: Offers, others: Iterable[Offers]) -> bool:
    """Whether a member's versions overlap with those of another member, for an assignor that both
    support. True if it shares no assignor with anybody."""
    shared = [
        (one, other)
        for offers in others
        for one in mine
        if (other := offer_for(one.name, offers)) is not None
    ]
    return not shared or any(
        one.minimum <= other.maximum and other.minimum <= one.maximum for one, other in shared
    )


def offer_for(assignor: str, offers: Offers) -> Offer | None:
    return next((each for each in offers if each.name == assignor), None)
