"""Which clients are connected, and which members' clients have gone (DEV D82).

The client of a member has gone once it has closed the connection of its latest heartbeat, and then
all others that it had. A connection that ended in any other way proves nothing. It is kept only for
`group.static.takeover = connection-closed`.
"""

from dataclasses import dataclass, field

from gateway.data_path.removal import ClientIdentity
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule

GONE_MAX = 2_000
CLOSED_MAX = 100
"""Members whose clients have gone, and those of one client that has not gone yet. Of more, the
first one is forgotten: its instance id stays in use, as in Kafka."""

Membership = tuple[str, str]
"""The group and the member id."""


@dataclass(slots=True)
class _Connected:
    """A client with connections."""

    connections: int = 0
    closed: dict[Membership, QuotaKey] = field(default_factory=dict)
    """The members of this client whose connections it has closed, and its user at that time."""


class ConnectedClients:
    """The connected clients, and the members whose clients have gone."""

    def __init__(self) -> None:
        self._connected: dict[ClientIdentity, _Connected] = {}
        self._speakers: dict[int, Membership] = {}
        self._spoke_on: dict[Membership, int] = {}
        self._gone: QuotaCache[Membership, QuotaKey] = QuotaCache(GONE_MAX, ShareRule())

    def begin(self, client: ClientIdentity) -> None:
        """The client has introduced itself on another connection."""
        self._connected.setdefault(client, _Connected()).connections += 1

    def spoke(self, member: Membership, number: int) -> None:
        """A heartbeat of the member has succeeded on this connection."""
        if self._spoke_on.get(member) != number:
            self._be_silent(number)
            self._be_silent(self._spoke_on.get(member))
            self._spoke_on[member], self._speakers[number] = number, member

    def end(self, client: ClientIdentity, owner: QuotaKey, number: int, *, by_client: bool) -> None:
        """One of these connections has ended."""
        member = self._be_silent(number)
        connected = self._connected[client]
        connected.connections -= 1
        if not by_client:
            connected.closed.clear()
        elif member is not None:
            connected.closed[member] = owner
            if len(connected.closed) > CLOSED_MAX:
                del connected.closed[next(iter(connected.closed))]
        if connected.connections:
            return
        del self._connected[client]
        for membership, former_owner in connected.closed.items():
            self._gone.put(membership, former_owner, former_owner)

    def _be_silent(self, number: int | None) -> Membership | None:
        """Forget the connection's latest member, and return it: the last that sent a heartbeat
        here, and none elsewhere since."""
        member = None if number is None else self._speakers.pop(number, None)
        if member is not None:
            del self._spoke_on[member]
        return member

    def mark_seen(self, member: Membership) -> None:
        """The member was seen, on any connection."""
        self._gone.pop(member)

    def find_gone(self, group_id: str, owner: QuotaKey) -> frozenset[str]:
        """The members of the group whose clients have gone, and were the same user; without
        authentication, those at the same address."""
        return frozenset(
            member_id
            for (gone_group_id, member_id), former_owner in self._gone.items()
            if (gone_group_id, former_owner) == (group_id, owner)
        )
