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


class AssignorOffer(NamedTuple):
    """An assignor that a member supports: the versions of metadata that it can handle, and that of
    its own. Classic members run none."""

    name: str
    minimum: int
    maximum: int
    version: int
    is_native: bool = True


AssignorOffers = tuple[AssignorOffer, ...]
VersionsInUse = Mapping[str, tuple[int, int]]
"""The lowest and the highest version of its members' metadata, by assignor."""


def offers_of(member: Member) -> AssignorOffers:
    """What a member offers. The protocols of a classic member are assignors (KIP-848, "JoinGroup
    Handling")."""
    if member.classic is not None:
        only = CLASSIC_VERSION
        names = protocol_names(member.classic.protocols)
        return tuple(AssignorOffer(name, only, only, only, is_native=False) for name in names)
    return tuple(
        AssignorOffer(
            assignor.name, assignor.minimum_version, assignor.maximum_version, assignor.version
        )
        for assignor in member.client_assignors
    )


def versions_in_use(counts: Iterable[AssignorOffers]) -> VersionsInUse:
    """What has to be handled of each assignor that all members support."""
    in_use: dict[str, tuple[int, int]] | None = None
    for offers in counts:
        shared = {offer.name: (offer.version, offer.version) for offer in offers}
        if in_use is None:
            in_use = shared
            continue
        in_use = {
            name: (min(lowest, shared[name][0]), max(highest, shared[name][1]))
            for name, (lowest, highest) in in_use.items()
            if name in shared
        }
    return in_use or {}


def select_assignor(counts: Mapping[AssignorOffers, int]) -> str | None:
    """The assignor that all members support, that some member can run, and that most prefer among
    such; by name in a tie. None if there is no such assignor."""
    in_use = versions_in_use(counts)
    candidates = {offer.name for offers in counts for offer in offers if _runs(offer, in_use)}
    votes: Counter[str] = Counter()
    for offers, count in counts.items():
        preferred = next((name for name, *_ in offers if name in candidates), None)
        if preferred is not None:
            votes[preferred] += count
    return max(sorted(votes), key=votes.__getitem__, default=None)


def can_run(offers: AssignorOffers, assignor: str, in_use: VersionsInUse) -> bool:
    """Whether a member that offers this can run the assignor: it handles the metadata of all
    members. False if some member does not support the assignor."""
    offer = offer_for(assignor, offers)
    return offer is not None and _runs(offer, in_use)


def _runs(offer: AssignorOffer, in_use: VersionsInUse) -> bool:
    if not offer.is_native or offer.name not in in_use:
        return False
    lowest, highest = in_use[offer.name]
    return offer.minimum <= lowest and highest <= offer.maximum


def overlap(own_offers: AssignorOffers, others: Iterable[AssignorOffers]) -> bool:
    """Whether a member's versions overlap with those of another member, for an assignor that both
    support. True if it shares no assignor with another member."""
    by_name = {offer.name: offer for offer in own_offers}
    is_sharing = False
    for offers in others:
        for other in offers:
            one = by_name.get(other.name)
            if one is None:
                continue
            if one.minimum <= other.maximum and other.minimum <= one.maximum:
                return True
            is_sharing = True
    return not is_sharing


def offer_for(assignor: str, offers: AssignorOffers) -> AssignorOffer | None:
    return next((offer for offer in offers if offer.name == assignor), None)
