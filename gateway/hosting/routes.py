"""Who answers a call: one table of the group's situation and the kind of the call.

`CallStages` (`call_stages.py`) finds the situation, reads the table, and does what it says. If the
gateway itself refuses the call, `answers.py` has the code.
"""

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from gateway.hosting.answers import ANSWERS, GroupApi, RefusalReason
from gateway.hosting.calls import Call, Forwarded, Refused, refuse
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.states import Mode


class GroupSituation(Enum):
    """Who has a group that has members here, moves, or is not known yet."""

    HERE = auto()
    """The group has members here, or the caller knows that it is hosted."""
    UNREAD = auto()
    """The log is being read, and may have members of the group."""
    UNKNOWN_TO_US = auto()
    """The cluster has to be asked who is in the group."""
    PROPOSED = auto()
    """An adoption looks at the group, and has changed nothing."""
    HELD = auto()
    """An adoption takes the group over, or the log of a move is still unread."""
    RECALLED = auto()
    """The members of a release, or of an adoption that is undone, are told to rejoin."""
    OPENED = auto()
    """A release has let classic members into the cluster, and the anchor may still be there."""
    NATIVE_FIRST = auto()
    """A release has let the group go, and a native member has to be the first in the cluster."""
    LET_GO = auto()
    """A release has let the group go. Only the log does not know yet."""


Situation = GroupSituation | Mode
"""Who has the group, as far as its calls are concerned. Of other groups the decision says it."""


class CallKind(Enum):
    """A call, as far as it matters who answers it."""

    JOIN = auto()
    """A JoinGroup of the consumer protocol."""
    NATIVE_JOIN = auto()
    FOREIGN_JOIN = auto()
    """A JoinGroup with another embedded protocol, which only the cluster can admit."""
    HEARTBEAT = auto()
    """A classic Heartbeat."""
    ADMIN = auto()
    OTHER = auto()

    @classmethod
    def of(cls, call: Call) -> "CallKind":
        """The kind of a call."""
        if call.is_foreign:
            return cls.FOREIGN_JOIN
        return _KINDS.get(call.api, cls.OTHER)


_KINDS = {
    GroupApi.JOIN: CallKind.JOIN,
    GroupApi.CONSUMER_JOIN: CallKind.NATIVE_JOIN,
    GroupApi.HEARTBEAT: CallKind.HEARTBEAT,
    GroupApi.ADMIN: CallKind.ADMIN,
}


class Route(Enum):
    """Who answers a call, or what has to come first."""

    HERE = auto()
    """The group here."""
    CLUSTER = auto()
    """The cluster."""
    CLUSTER_UNLESS_HELD = auto()
    """The cluster, unless an operator holds the group."""
    CLUSTER_WITHOUT_ANCHOR = auto()
    """The cluster, once the anchor has left the group."""
    MOVE = auto()
    """The move, if it vouches for the member or tells it to rejoin. Otherwise the call waits."""
    REFUSE = auto()
    """The gateway itself."""
    AFTER_LOOK = auto()
    """A look at the cluster comes first."""
    AFTER_LOAD = auto()
    """The log is being read."""
    AFTER_MOVE = auto()
    """An adoption or release is under way."""


_UNLESS_FOREIGN = {CallKind.FOREIGN_JOIN: Route.CLUSTER_WITHOUT_ANCHOR}
_UNLESS_CLUSTERS = {
    kind: Route.CLUSTER
    for api, kind in _KINDS.items()
    if ANSWERS[RefusalReason.ELSEWHERE, api] is None
}
_UNLESS_HELD = {CallKind.NATIVE_JOIN: Route.CLUSTER_UNLESS_HELD}

_ROWS: Mapping[Situation, tuple[Route, Mapping[CallKind, Route]]] = {
    GroupSituation.HERE: (Route.HERE, {}),
    GroupSituation.UNREAD: (Route.AFTER_LOAD, _UNLESS_FOREIGN),
    GroupSituation.UNKNOWN_TO_US: (Route.AFTER_LOOK, _UNLESS_FOREIGN),
    Mode.HOSTED: (Route.HERE, _UNLESS_FOREIGN),
    Mode.FORWARDED: (Route.CLUSTER, {**_UNLESS_HELD, **_UNLESS_FOREIGN}),
    Mode.ELSEWHERE: (Route.REFUSE, {**_UNLESS_CLUSTERS, **_UNLESS_FOREIGN}),
    Mode.UNKNOWN: (Route.REFUSE, _UNLESS_FOREIGN),
    GroupSituation.PROPOSED: (Route.CLUSTER, _UNLESS_HELD),
    GroupSituation.HELD: (Route.AFTER_MOVE, {CallKind.HEARTBEAT: Route.MOVE}),
    GroupSituation.RECALLED: (Route.MOVE, {}),
    # A native member finds the cluster only once the anchor has left.
    GroupSituation.OPENED: (Route.CLUSTER, {CallKind.NATIVE_JOIN: Route.MOVE}),
    # A coordinator does not convert a group whose assignment has user data, as that of librdkafka's
    # cooperative assignor has: it tells a native member GROUP_ID_NOT_FOUND, which is fatal to some.
    GroupSituation.NATIVE_FIRST: (
        Route.CLUSTER,
        {CallKind.JOIN: Route.MOVE, CallKind.FOREIGN_JOIN: Route.MOVE},
    ),
    GroupSituation.LET_GO: (Route.CLUSTER, {}),
}

ROUTES: Mapping[tuple[Situation, CallKind], Route] = MappingProxyType(
    {
        (situation, kind): exceptions.get(kind, route)
        for situation, (route, exceptions) in _ROWS.items()
        for kind in CallKind
    }
)


def answer_elsewhere(decision: RoutingDecision, call: Call) -> Forwarded | Refused:
    """The answer to a call that adds no member to a group that the gateway does not host."""
    if ROUTES[decision.mode, CallKind.of(call)] is Route.REFUSE:
        return refusal_by(decision)
    return Forwarded(decision.reason)


def refusal_by(decision: RoutingDecision) -> Refused:
    """The refusal of a call to a group that neither the gateway nor the cluster serves."""
    assert decision.cause is not None
    return refuse(decision.cause, decision.reason)
