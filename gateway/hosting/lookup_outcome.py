"""What a lookup in the cluster may find out about a group."""

from dataclasses import dataclass, field
from typing import Self

from gateway.hosting.identity import log_of
from kafka_codecs.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.describe_groups import DescribedGroup

NAMED_OCCUPANTS_MAX = 5
"""Clients named in a reason; the others are only counted."""

# Kafka Streams uses the consumer protocol type, with an assignor that keeps data of its own.
STREAMS_PROTOCOL = "stream"


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """Live members of a group in the cluster itself."""

    protocol_type: str
    client_ids: tuple[str, ...]
    protocol: str = ""
    """The protocol in force, if the group is classic and has one."""
    anchored: DescribedGroup | None = None
    """The cluster's description of the group if its members are anchors; it says whose."""
    described: DescribedGroup | None = field(default=None, compare=False, repr=False)
    """The cluster's description of a classic group."""
    consumer_group: DescribedConsumerGroup | None = field(default=None, compare=False, repr=False)
    """The cluster's description of a group of the new protocol."""
    native_ids: tuple[frozenset[str], ...] = field(default=(), compare=False, repr=False)
    """The member id and the instance id of each native member."""
    tells_natives: bool = field(default=True, compare=False)
    """Whether the cluster says which members are native; Kafka does since 4.0."""

    @property
    def native(self) -> int:
        """The number of native members."""
        return len(self.native_ids)

    @classmethod
    def of(cls, group: DescribedGroup) -> Self:
        """The members of a classic group, as the cluster describes it."""
        return cls(
            group.protocol_type,
            tuple(member.client_id for member in group.members),
            group.protocol_data,
            None if log_of(group) is None else group,
            group,
        )

    def __str__(self) -> str:
        known = sorted(set(self.client_ids))
        named, more = known[:NAMED_OCCUPANTS_MAX], len(known) - NAMED_OCCUPANTS_MAX
        rest = f" and {more} more" if more > 0 else ""
        count = len(self.client_ids)
        members = "1 member" if count == 1 else f"{count} members"
        return f"{members} ({', '.join(named)}{rest})"


@dataclass(frozen=True, slots=True)
class OtherGroupType:
    """A live group of a kind that no consumer can join."""

    kind: str
    protocol_type: str = ""

    def __str__(self) -> str:
        return f"the members of a {self.kind} group of the same name"


@dataclass(frozen=True, slots=True)
class NoMembers:
    """The group has no members in the cluster."""

    takes_natives: bool = field(default=True, compare=False)
    """Whether the cluster has the new protocol."""


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """The cluster does not say who is in the group."""

    reason: str


@dataclass(frozen=True, slots=True)
class BrokerTooOld:
    """The group's coordinator fences no static members, so no anchor can hold the group."""


LookupOutcome = LiveMembers | OtherGroupType | NoMembers | LookupFailed | BrokerTooOld
"""What a lookup in the cluster has found."""


def foreign_kind(protocol_type: str, protocol: str) -> str:
    """The kind of a group that is not a consumer group; empty if it is one, as far as known."""
    if protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
        return f"its protocol type is {protocol_type}"
    return "it is a group of Kafka Streams" if protocol == STREAMS_PROTOCOL else ""
