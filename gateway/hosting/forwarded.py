"""What the gateway knows of forwarded groups: from what it relays, and from descriptions.

A description has the members with their assignments and the metadata of the protocol in force, but
no generation, no leader and no timeouts. Those come from relayed answers. What no answer has told
is None, and is learned at the member's next join.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gateway.hosting.calls import Commits
from gateway.hosting.newest_connections import NewestConnections
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafka_codecs.join_group import JoinGroupRequest, JoinGroupResponse
from kafka_codecs.leave_group import LeaveGroupRequest, LeaveGroupResponse
from kafka_codecs.sync_group import SyncGroupRequest, SyncGroupResponse

GROUPS_MAX = 1_000
"""Groups that are watched. Of more, the longest silent one is forgotten."""
BYTES_MAX = 64 * 1024 * 1024
"""What is remembered of all groups together: the longest silent ones are forgotten first."""
MEMBERS_MAX = 2_000
BYTES_PER_GROUP_MAX = 8 * 1024 * 1024
"""A group with more members or more bytes is not watched until it has ended."""
BYTES_PER_MEMBER = 1_000
"""What a member takes besides its names, its protocols and its assignment, roughly."""

STABLE = "Stable"

_STILL_A_MEMBER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})
_NO_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """The client whose request was relayed."""

    client_id: str
    client_host: str
    owner: QuotaKey | None = None
    """The quota key that the member's names count towards."""
    connection: int | None = None
    """The number of its connection."""
    software_name: str | None = None
    """What it introduced itself as; None if it did not."""
    software_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedMember:
    """A classic member of a forwarded group, behind the gateway or bypassing it."""

    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    software_name: str | None = None
    software_version: str | None = None
    session_timeout_ms: int | None = None
    """None until a join was relayed."""
    rebalance_timeout_ms: int | None = None
    """None until a join was relayed."""
    protocols: tuple[tuple[str, bytes], ...] = ()
    """The assignors and their metadata, in the member's order. Of a member whose join was not
    relayed, only the protocol in force is known."""
    assignment: bytes = b""
    """What the cluster assigned in the group's generation, as in its SyncGroup answer."""
    heartbeat_ms: int | None = None
    """When the member was last answered here as a member of the group; None if it never was."""
    joined_here: bool = False
    """Whether its join in the group's generation was relayed."""
    joined_on: int | None = None
    """The number of the connection of its latest join that was relayed."""

    @property
    def size(self) -> int:
        """The bytes that it takes, roughly."""
        names = (self.member_id, self.instance_id, self.client_id, self.client_host)
        software = (self.software_name, self.software_version)
        texts = sum(len(text or "") for text in (*names, *software))
        metadata = sum(len(name) + len(data) for name, data in self.protocols)
        return BYTES_PER_MEMBER + texts + metadata + len(self.assignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedGroup:
    """A classic group in the cluster, as far as known."""

    group_id: str
    generation: int | None = None
    """None until an answer to a member tells it: descriptions do not."""
    protocol_type: str = ""
    """Empty if neither a join nor a description has told it."""
    protocol: str = ""
    """The assignor in force; empty during a rebalance."""
    leader_id: str | None = None
    """Known only from a relayed JoinGroup answer of the generation."""
    members: Mapping[str, WatchedMember]
    """The members by id."""
    committed_on: NewestConnections = field(default_factory=NewestConnections)
    """The connections on which the members have committed."""


@dataclass(slots=True)
class _Watch:
    """One group."""

    generation: int | None = None
    protocol_type: str = ""
    protocol: str = ""
    leader_id: str | None = None
    is_consumer: bool = False
    """Whether the cluster has converted the group to the new protocol, as far as known."""
    members: dict[str, WatchedMember] = field(default_factory=dict)
    committed_on: NewestConnections = field(default_factory=NewestConnections)
    by_instance: dict[str, str] = field(default_factory=dict)
    """The member ids of static members."""
    size: int = 0
    is_too_large: bool = False

    def put(self, member: WatchedMember) -> None:
        """Add or replace a member. Of the two with one instance id, the new one is in the group."""
        self.drop(member.member_id)
        if member.instance_id is not None:
            self.drop_instance(member.instance_id)
            self.by_instance[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self.size += member.size

    def convert(self) -> None:
        """The cluster has converted the group. It may be classic again, from generation 1 on."""
        self.is_consumer = True
        self.generation, self.protocol, self.leader_id = None, "", None
        self.keep_only(())

    def drop(self, member_id: str) -> None:
        gone = self.members.pop(member_id, None)
        if gone is not None:
            self.size -= gone.size
            if gone.instance_id is not None:
                del self.by_instance[gone.instance_id]

    def drop_instance(self, instance_id: str) -> None:
        if instance_id in self.by_instance:
            self.drop(self.by_instance[instance_id])

    def keep_only(self, member_ids: Collection[str]) -> None:
        for member_id in self.members.keys() - member_ids:
            self.drop(member_id)

    def member(self, member_id: str) -> WatchedMember:
        return self.members.get(member_id) or WatchedMember(member_id=member_id)

    def is_current(self, generation: int) -> bool:
        """Whether an answer in this generation still tells something; a later generation begins
        with it."""
        if self.generation is None or generation > self.generation:
            self.generation, self.protocol, self.leader_id = generation, "", None
            for member in tuple(self.members.values()):
                if member.assignment or member.joined_here:
                    self.put(replace(member, assignment=b"", joined_here=False))
        return generation == self.generation


class WatchedGroups:
    """Groups in the order of their last request. The cost of a heartbeat does not depend on their
    number, nor on that of their members."""

    def __init__(self, names: ShareRule | None = None) -> None:
        self._watches: QuotaCache[str, _Watch] = QuotaCache(GROUPS_MAX, names or ShareRule())
        self._size = 0
        self._described: set[str] = set()

    def take_described(self) -> Collection[str]:
        """The groups all of whose members have become known since the previous call."""
        described, self._described = self._described, set()
        return described

    def group(self, group_id: str) -> WatchedGroup | None:
        """What is known of a group now; None if it is not watched."""
        watch = self._watches.get(group_id)
        if watch is None or watch.is_too_large or watch.is_consumer:
            return None
        return WatchedGroup(
            group_id=group_id,
            generation=watch.generation,
            protocol_type=watch.protocol_type,
            protocol=watch.protocol,
            leader_id=watch.leader_id,
            members=dict(watch.members),
            committed_on=watch.committed_on,
        )

    def forget(self, group_id: str) -> None:
        """The group has ended, or is no longer forwarded."""
        self._drop(self._watches.pop(group_id))

    def record_relayed(
        self, group_id: str, client: Client, request: Struct, answer: Struct, now_ms: int
    ) -> None:
        """The cluster has answered a client's request, and the gateway has passed both on."""
        watch = self._begin(group_id)
        if isinstance(answer, JoinGroupResponse) and not answer.error_code and answer.leader:
            watch.is_consumer = False  # a group of the new protocol has no leader
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and not answer.error_code:
            watch.convert()
        elif not (watch.is_too_large or watch.is_consumer):
            match request, answer:
                case JoinGroupRequest(), JoinGroupResponse():
                    _observe_join(watch, client, request, answer, now_ms)
                case SyncGroupRequest(), SyncGroupResponse():
                    _observe_sync(watch, client, request, answer, now_ms)
                    if request.member_id == watch.leader_id and not answer.error_code:
                        self._described.add(group_id)
                case HeartbeatRequest(), HeartbeatResponse():
                    _observe_heartbeat(watch, client, request, answer, now_ms)
                case LeaveGroupRequest(), LeaveGroupResponse():
                    _observe_leave(watch, request, answer)
                case _:
                    pass
        self._end(group_id, watch, client.owner)

    def record_commit(self, group_id: str, call: Commits) -> None:
        """Commits go to the cluster. Once the group is adopted, one that comes later on an older
        connection would take their offsets back (DEV D73)."""
        watch = self._watches.get(group_id)
        if watch is None or call.connection is None:
            return
        keys = [key for key in call.order_keys if key in watch.members]
        if watch.committed_on.record(keys, call.connection, call.newest_connection):
            watch.committed_on.forget_others(watch.members)

    def record_described(self, group: DescribedGroup) -> None:
        """The cluster has described a classic group with members."""
        watch = self._begin(group.group_id)
        watch.is_consumer = False
        if not watch.is_too_large:
            watch.protocol_type = group.protocol_type
            watch.protocol = group.protocol_data if group.group_state == STABLE else ""
            watch.keep_only({member.member_id for member in group.members})
            for member in group.members[: MEMBERS_MAX + 1]:
                watch.put(
                    _merge_description(watch.member(member.member_id), member, watch.protocol)
                )
            self._described.add(group.group_id)
        self._end(group.group_id, watch)

    def _begin(self, group_id: str) -> _Watch:
        """The group's watch, which counts for nothing until its end."""
        watch = self._watches.get(group_id) or _Watch()
        self._size -= watch.size
        return watch

    def _end(self, group_id: str, watch: _Watch, owner: QuotaKey | None = None) -> None:
        """The watch is the latest, unless there is nothing to remember."""
        if len(watch.members) > MEMBERS_MAX or watch.size > BYTES_PER_GROUP_MAX:
            watch.keep_only(())
            watch.is_too_large = True
        if watch.members or watch.is_too_large or watch.is_consumer:
            self._size += watch.size
            self._drop(self._watches.put(group_id, watch, owner))
        else:
            self._watches.pop(group_id)
        while self._size > BYTES_MAX:
            self.forget(next(iter(self._watches)))

    def _drop(self, forgotten: Iterable[_Watch]) -> None:
        self._size -= sum(watch.size for watch in forgotten)


def _answered_member(watch: _Watch, client: Client, member_id: str, now_ms: int) -> WatchedMember:
    """The member, which has just been answered as one."""
    return replace(
        watch.member(member_id),
        client_id=client.client_id,
        client_host=client.client_host,
        software_name=client.software_name,
        software_version=client.software_version,
        heartbeat_ms=now_ms,
    )


def _observe_join(
    watch: _Watch, client: Client, request: JoinGroupRequest, answer: JoinGroupResponse, now_ms: int
) -> None:
    if answer.error_code in _NO_MEMBER:
        watch.drop(request.member_id)
    if answer.error_code or not watch.is_current(answer.generation_id):
        return
    watch.protocol_type = request.protocol_type
    watch.protocol, watch.leader_id = answer.protocol_name or "", answer.leader
    if answer.members:  # only the leader is told who is in the generation
        watch.keep_only({member.member_id for member in answer.members})
    for member in answer.members[: MEMBERS_MAX + 1]:
        known = watch.member(member.member_id)
        if not known.joined_here:
            metadata = ((watch.protocol, member.metadata),)
            watch.put(replace(known, instance_id=member.group_instance_id, protocols=metadata))
    has_timeout = request.rebalance_timeout_ms >= 0  # otherwise it is older than v1 (rule 1.2)
    watch.put(
        replace(
            _answered_member(watch, client, answer.member_id, now_ms),
            instance_id=request.group_instance_id,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=(
                request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms
            ),
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            joined_here=True,
            joined_on=client.connection,
        )
    )


def _observe_sync(
    watch: _Watch, client: Client, request: SyncGroupRequest, answer: SyncGroupResponse, now_ms: int
) -> None:
    if answer.error_code in _NO_MEMBER:
        watch.drop(request.member_id)
    if answer.error_code or not watch.is_current(request.generation_id):
        return
    if request.member_id == watch.leader_id:  # the cluster ignores those of others
        for share in request.assignments[: MEMBERS_MAX + 1]:
            watch.put(replace(watch.member(share.member_id), assignment=share.assignment))
    member = _answered_member(watch, client, request.member_id, now_ms)
    watch.put(replace(member, assignment=answer.assignment))


def _observe_heartbeat(
    watch: _Watch, client: Client, request: HeartbeatRequest, answer: HeartbeatResponse, now_ms: int
) -> None:
    if answer.error_code in _NO_MEMBER:
        watch.drop(request.member_id)
    if answer.error_code not in _STILL_A_MEMBER or not watch.is_current(request.generation_id):
        return
    if answer.error_code:
        watch.protocol = ""
    watch.put(_answered_member(watch, client, request.member_id, now_ms))


def _observe_leave(watch: _Watch, request: LeaveGroupRequest, answer: LeaveGroupResponse) -> None:
    if answer.error_code:
        return
    watch.drop(request.member_id)  # up to v2
    for member in answer.members:
        if not member.error_code:
            watch.drop(member.member_id)
            if member.group_instance_id is not None:
                watch.drop_instance(member.group_instance_id)


def _merge_description(
    known: WatchedMember, description: DescribedGroupMember, protocol: str
) -> WatchedMember:
    """What was relayed in this generation is as new as the description, or newer."""
    protocols = known.protocols
    if protocol and not known.joined_here:
        protocols = ((protocol, description.member_metadata),)
    return replace(
        known,
        instance_id=description.group_instance_id or known.instance_id,
        client_id=known.client_id or description.client_id,
        client_host=known.client_host or description.client_host,
        protocols=protocols,
        assignment=known.assignment or (description.member_assignment if protocol else b""),
    )
