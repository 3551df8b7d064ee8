"""The identity of an anchor: how the cluster, this gateway and other gateways recognise it.

The anchor's protocol type is that of consumers, so tools that bypass the gateway show a consumer
group. Its protocol is private, so consumers have none in common with it, and it names the state
log.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.leave_group import FIRST_LEAVE_VERSION_WITH_MEMBERS

PROTOCOL_PREFIX = "groupferry-"
"""What the name of every anchor's protocol begins with. The id of the state log follows."""

INSTANCE_ID = "groupferry-anchor"
"""Fixed, so that a gateway with the same state log replaces its predecessor."""

CLIENT_ID = "groupferry"
"""The client id of all connections of the gateway itself."""

OLDER_PROTOCOL_TYPE = "groupferry"
"""The protocol type of anchors that groupferry 0.2 has joined."""

FIRST_COMMIT_VERSION = 7
FIRST_TXN_COMMIT_VERSION = 3
"""The first versions with an instance id. It fences the predecessor; the generation does not."""

_NEEDS = {
    ApiKey.JOIN_GROUP: 5,
    ApiKey.SYNC_GROUP: 3,
    ApiKey.HEARTBEAT: 3,
    ApiKey.OFFSET_COMMIT: FIRST_COMMIT_VERSION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorJoinMetadata:
    """What an anchor joins as."""

    protocol_type: str
    protocol: str
    metadata: bytes
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The gateway that owns the anchor."""

    log_id: str
    """The id of the state log. It is in the name of the protocol, so that gateways with different
    state logs have none in common."""
    run_id: int
    """Distinguishes processes with the same state log, and grows from one to the next."""

    @property
    def join_metadata(self) -> AnchorJoinMetadata:
        """What its anchors join as."""
        return AnchorJoinMetadata(
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol=PROTOCOL_PREFIX + self.log_id,
            metadata=unreadable_subscription(self.run_id),
            instance_id=INSTANCE_ID,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorIds:
    """The ids of the anchor in the cluster. Commits carry them."""

    member_id: str
    generation: int
    instance_id: str = INSTANCE_ID


NO_IDS = AnchorIds(member_id="", generation=-1)
"""Stands for the ids where no anchor is needed."""

_SUBSCRIPTION_HEAD = struct.Struct(">hih")  # version 0, one topic, and the length of its name
_RUN = re.compile(rb"(?:\x00{5}\x01..)?run ([0-9]{1,19})", re.DOTALL)


def unreadable_subscription(run_id: int) -> bytes:
    """The protocol metadata of an anchor: names its process, and is no subscription.

    Brokers read it as a subscription of version 0: one topic, and then the user data, whose length
    is missing. Only bytes that end inside a number are harmless. With a readable subscription, the
    cluster would expire offsets, let an admin delete them, and convert the group for a native
    consumer. Other unreadable bytes, such as a length that exceeds what follows, throw inside the
    coordinator, and the JoinGroup is never answered.
    """
    run = b"run %d" % run_id
    return _SUBSCRIPTION_HEAD.pack(0, 1, len(run)) + run


def run_of(metadata: bytes) -> int | None:
    """The run id of the anchor with this protocol metadata. None while an anchor joins, or if an
    early version of groupferry joined it."""
    match = _RUN.fullmatch(metadata)
    return int(match[1]) if match else None


def log_of(group: DescribedGroup) -> str | None:
    """The id of the state log whose anchor is in the group; empty while the anchor joins, because
    the cluster describes no protocol then. None if the group has other members, or none."""
    if not group.members:
        return None
    if group.protocol_type == OLDER_PROTOCOL_TYPE:
        return group.protocol_data
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if group.protocol_data.startswith(PROTOCOL_PREFIX):
        return group.protocol_data.removeprefix(PROTOCOL_PREFIX)
    is_joining = not group.protocol_data and all(map(_is_anchor, group.members))
    return "" if is_joining else None


def _is_anchor(member: DescribedGroupMember) -> bool:
    """The coordinator makes the id of a static member from the instance id, which old versions do
    not describe; that of any other member from the client id."""
    return member.client_id == CLIENT_ID and member.member_id.startswith(f"{INSTANCE_ID}-")


def may_be_adopted(versions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether several members can leave in one request, as since Kafka 2.4."""
    return versions.get(ApiKey.LEAVE_GROUP, (0, -1))[1] >= FIRST_LEAVE_VERSION_WITH_MEMBERS


def may_hold(versions: Mapping[int, tuple[int, int]]) -> bool:
    """Whether the broker fences static members, as Kafka 2.3 and later do."""
    return all(versions.get(key, (0, -1))[1] >= version for key, version in _NEEDS.items())
