"""The members of a group over time, and which client versions they have."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.client_versions import speaks_consumer
from gateway.events.offset_events import NO_MEMBER
from gateway.pipeline.fold.order import Placed
from gateway.pipeline.fold.rows import ClientRow, Tables, TimelineRow


@dataclass(slots=True)
class Stay:
    """A member, or the group itself, in one state."""

    member_id: str | None
    from_ms: int
    instance_id: str | None = None
    client_id: str | None = None
    protocol: str | None = None
    state: str | None = None


@dataclass(slots=True)
class SeenClient:
    """How a member introduced itself."""

    software_name: str | None
    software_version: str | None
    at_ms: int


class MemberFold:
    """The members of one group. Takes its lines in their order."""

    def __init__(self, cluster_id: str, group_id: str, tables: Tables) -> None:
        self._of = {"cluster_id": cluster_id, "group_id": group_id}
        self.tables = tables
        self._group: Stay | None = None
        self._stays: dict[str, Stay] = {}
        self._clients: dict[str, SeenClient] = {}
        self.kind: str | None = None

    def take(self, placed: Placed) -> None:
        """Take the next line."""
        handler = _HANDLERS.get(placed.line.event)
        if handler is not None:
            handler(self, placed.at_ms, placed.line.fields, placed.line.event)

    def finish(self, to_ms: int) -> None:
        """Make the rows of all that has not ended."""
        stays = [self._group] if self._group is not None else []
        for stay in (*stays, *self._stays.values()):
            self._add(stay, None, None, None)
        versions: dict[tuple[Any, ...], list[Stay]] = {}
        for member_id, stay in self._stays.items():
            client = self._clients.get(member_id)
            names = (client.software_name, client.software_version) if client else (None, None)
            versions.setdefault((*names, stay.protocol or "classic"), []).append(stay)
        for (name, version, protocol), members in versions.items():
            seen = [self._clients.get(stay.member_id or "") for stay in members]
            self.tables.clients.append(
                ClientRow(
                    **self._of,
                    software_name=name,
                    software_version=version,
                    protocol=protocol,
                    members=len(members),
                    static_members=sum(stay.instance_id is not None for stay in members),
                    speaks_consumer=speaks_consumer(name, version),
                    at_ms=max((client.at_ms for client in seen if client), default=to_ms),
                )
            )

    def counts(self) -> dict[str, int]:
        """The members at the end."""
        protocols = [stay.protocol for stay in self._stays.values()]
        return {
            "members": len(protocols),
            "classic_members": protocols.count("classic"),
            "consumer_members": protocols.count("consumer"),
        }

    def _on_joined(self, at_ms: int, event: Any, name: str) -> None:
        self._leave(at_ms, event.member_id, name, None)
        self._stays[event.member_id] = Stay(
            event.member_id, at_ms, event.instance_id, event.client_id, event.protocol
        )

    def _on_left(self, at_ms: int, event: Any, name: str) -> None:
        self._leave(at_ms, event.member_id, name, event.cause)

    def _on_replaced(self, at_ms: int, event: Any, name: str) -> None:
        before = self._stays.get(event.member_id)
        self._leave(at_ms, event.member_id, name, None)
        if before is not None and event.replaced_by not in (None, *self._stays):
            self._stays[event.replaced_by] = Stay(
                event.replaced_by, at_ms, before.instance_id, before.client_id, before.protocol
            )

    def _on_switched(self, at_ms: int, event: Any, name: str) -> None:
        stay = self._stays.get(event.member_id)
        if stay is not None:
            self._change(at_ms, stay, name, protocol=event.protocol, state=None)

    def _on_member_state(self, at_ms: int, event: Any, name: str) -> None:
        stay = self._stays.get(event.member_id)
        if stay is not None:
            self._change(at_ms, stay, name, protocol=stay.protocol, state=str(event.to_state))

    def _on_seen(self, at_ms: int, event: Any, _name: str) -> None:
        if event.member_id != NO_MEMBER:
            client = SeenClient(event.software_name, event.software_version, at_ms)
            self._clients[event.member_id] = client

    def _on_loaded(self, at_ms: int, event: Any, name: str) -> None:
        self.kind = event.kind or self.kind
        self._set_group(at_ms, event.state, name)
        self._set_members(at_ms, event.members, name)

    def _set_members(self, at_ms: int, members: Iterable[Any], name: str) -> None:
        snapshot = {member.member_id: member for member in members}
        for member_id in [known for known in self._stays if known not in snapshot]:
            self._leave(at_ms, member_id, name, None)
        for member_id, member in snapshot.items():
            stay = self._stays.get(member_id)
            if stay is None or stay.protocol != member.protocol:
                self._leave(at_ms, member_id, name, None)
                self._stays[member_id] = Stay(
                    member_id, at_ms, member.instance_id, member.client_id, member.protocol
                )

    def _on_created(self, at_ms: int, event: Any, name: str) -> None:
        self.kind = event.kind
        self._set_group(at_ms, None, name)

    def _on_converted(self, at_ms: int, event: Any, name: str) -> None:
        self.kind = event.direction.rpartition(">")[2]
        self._set_group(at_ms, None, name)

    def _on_group_state(self, at_ms: int, event: Any, name: str) -> None:
        self._set_group(at_ms, str(event.to_state), name)

    def _on_deleted(self, at_ms: int, _event: Any, name: str) -> None:
        self._set_members(at_ms, (), name)
        if self._group is not None:
            self._add(self._group, at_ms, name, None)
            self._group = None

    def _on_hosting_ended(self, at_ms: int, event: Any, name: str) -> None:
        if event.cause != "gateway_ended":
            self._set_members(at_ms, (), name)

    def _set_group(self, at_ms: int, state: str | None, name: str) -> None:
        if self._group is None:
            self._group = Stay(None, at_ms, protocol=self.kind, state=state)
        else:
            self._change(at_ms, self._group, name, protocol=self.kind, state=state)

    def _change(
        self, at_ms: int, stay: Stay, name: str, *, protocol: str | None, state: str | None
    ) -> None:
        if (stay.protocol, stay.state) == (protocol, state):
            return
        if at_ms > stay.from_ms:
            self._add(stay, at_ms, name, None)
        stay.from_ms, stay.protocol, stay.state = at_ms, protocol, state

    def _leave(self, at_ms: int, member_id: str, name: str, cause: Any) -> None:
        stay = self._stays.pop(member_id, None)
        if stay is not None:
            self._add(stay, at_ms, name, None if cause is None else str(cause))

    def _add(self, stay: Stay, to_ms: int | None, name: str | None, cause: str | None) -> None:
        self.tables.timeline.append(
            TimelineRow(
                **self._of,
                member_id=stay.member_id,
                instance_id=stay.instance_id,
                client_id=stay.client_id,
                protocol=stay.protocol,
                state=stay.state,
                from_ms=stay.from_ms,
                to_ms=to_ms,
                ended_by=name,
                cause=cause,
            )
        )


_HANDLERS: Mapping[str, Callable[[MemberFold, int, Any, str], None]] = {
    "member_joined": MemberFold._on_joined,
    "member_left": MemberFold._on_left,
    "member_fenced": MemberFold._on_left,
    "member_replaced": MemberFold._on_replaced,
    "member_switched": MemberFold._on_switched,
    "member_state_changed": MemberFold._on_member_state,
    "client_seen": MemberFold._on_seen,
    "group_loaded": MemberFold._on_loaded,
    "cluster_members_seen": MemberFold._on_loaded,
    "group_created": MemberFold._on_created,
    "group_converted": MemberFold._on_converted,
    "group_state_changed": MemberFold._on_group_state,
    "group_deleted": MemberFold._on_deleted,
    "hosting_ended": MemberFold._on_hosting_ended,
}
