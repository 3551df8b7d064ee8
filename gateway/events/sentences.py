"""Tells events as sentences: the story that log, terminal and page show to people.

Only what an operator acts on, or waits for, is a sentence. The other events are details: they state
what each cause did to partitions and epochs, and stay one key away.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gateway.events.event import GatewayEvent

NAMES_MAX = 20_000
"""Members whose client ids are remembered. Of more, those seen first are forgotten."""
NAMED_MAX = 3
"""Blockers named in a sentence; the others are only counted."""

Fields = Mapping[str, Any]

_PROTOCOLS = {"classic": "the classic protocol", "consumer": "the new protocol"}
_DIRECTIONS = {
    "classic->consumer": "from the classic to the new protocol",
    "consumer->classic": "from the new to the classic protocol",
}
_LEFT = {
    "left": "left",
    "removed_by_admin": "was removed by an admin",
    "session_expired": "was removed: it sent no heartbeat within its session",
    "revocation_timed_out": "was removed: it did not give up partitions in time",
    "join_timed_out": "was removed: it did not rejoin in time",
    "sync_timed_out": "was removed: it joined and did not sync in time",
    "group_full": "was removed: the group is full",
    "replaced": "was replaced by another process with its group.instance.id",
    "group_converted": "was removed: it could not be converted",
    "group_taken": "was removed: another member holds the group in the cluster",
    "generation_went_back": "was removed: the cluster has lost the group's generation",
    "released": "moved to the cluster",
}
_HOSTING_ENDS = {
    "released": "the cluster has the group back",
    "taken": "another member holds the group in the cluster",
    "anchor_lost": "the gateway lost its place in the cluster's group",
    "group_deleted": "the group was deleted",
    "gateway_ended": "the gateway ended",
    "forgotten": "the empty group was forgotten",
}


class Narrator:
    """Knows members by the ids of their clients, and tells events in order."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def learn(self, event: GatewayEvent, group_id: str | None) -> None:
        """Learn the names of members from an event that is not told, one of NAMING."""
        self._learn(event.name, group_id or "", event.fields)

    def tell_event(self, event: GatewayEvent, group_id: str | None) -> str:
        """The event as a sentence; empty for a detail. Learns the names of members from it."""
        if event.name in DETAILS and event.name not in NAMING:
            return ""  # most events are details, whose fields need not be collected
        return self.tell(event.name, group_id, event.fields)

    def tell(self, event: str, group_id: str | None, fields: Fields) -> str:
        """The same for an event of this name, with the fields of its JSON line."""
        self._learn(event, group_id or "", fields)
        make = _SENTENCES.get(event)
        if make is None:
            return ""
        return make(fields, lambda member_id: self._name_of(group_id or "", member_id))

    def _name_of(self, group_id: str, member_id: str) -> str:
        return self._names.get((group_id, member_id)) or member_id

    def _learn(self, event: str, group_id: str, fields: Fields) -> None:
        if event in ("client_seen", "member_joined"):
            self._remember(group_id, fields["member_id"], fields["client_id"])
        elif event == "group_loaded":
            for member in fields["members"]:
                self._remember(group_id, member["member_id"], member["client_id"])
        elif event == "member_replaced" and fields["replaced_by"]:
            name = self._name_of(group_id, fields["member_id"])
            self._remember(group_id, fields["replaced_by"], name)

    def _remember(self, group_id: str, member_id: str, client_id: str) -> None:
        if member_id and client_id:
            self._names.pop((group_id, member_id), None)
            self._names[group_id, member_id] = client_id
            if len(self._names) > NAMES_MAX:
                del self._names[next(iter(self._names))]


NAMING = frozenset({"client_seen", "group_loaded"})
"""Details that tell the clients of members."""

_NameOf = Callable[[str], str]
_Sentence = Callable[[Fields, _NameOf], str]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _idle_time(unowned_ms: int) -> str:
    return f"{unowned_ms / 1000:.1f} partition-seconds without an owner"


def _disturbance(members: int) -> str:
    return f"{_count(members, 'other member')} disturbed" if members else "nobody else disturbed"


def _moves(fields: Fields) -> str:
    moved = fields["partitions_moved"]
    if not moved:
        return "no partition moved"
    return f"{_count(moved, 'partition')} moved, where {fields['least_possible']} had to"


def _tell_step(fields: Fields, _name_of: _NameOf) -> str:
    is_same = not fields["partitions_moved"]
    parts = [
        f"{fields['client_id']} came back with {_PROTOCOLS[fields['to_protocol']]}"
        + (" and kept its partitions" if is_same else ""),
        *(() if is_same else (_moves(fields),)),
        _idle_time(fields["unowned_ms"]),
        _disturbance(fields["members_disturbed"]),
    ]
    return ", ".join(parts)


def _tell_rebalance(fields: Fields, _name_of: _NameOf) -> str:
    """A rebalance for a joiner is a part of its step, or of its arrival; one that was overtaken is
    a part of the next."""
    is_part = fields["was_interrupted"] or fields["cause"] == "member_joined"
    if is_part or not (fields["partitions_moved"] or fields["unowned_ms"]):
        return ""
    return f"rebalanced: {_moves(fields)}, {_idle_time(fields['unowned_ms'])}"


def _tell_readiness(fields: Fields, _name_of: _NameOf) -> str:
    direction = _DIRECTIONS[fields["direction"]]
    if fields["can_convert"]:
        return f"can convert {direction} now"
    blockers = _name_blockers(fields["blocked_by"], fields["blockers"])
    return f"cannot convert {direction} yet: {blockers}"


def _name_blockers(blockers: Iterable[Fields], count: int) -> str:
    reasons = [
        ": ".join(filter(None, (blocker["client_id"], blocker["reason"]))) for blocker in blockers
    ][:NAMED_MAX]
    more = count - len(reasons)
    return "; ".join(reasons) + (f"; and {more:,} more" if more > 0 else "")


def _tell_conversion(fields: Fields, name_of: _NameOf) -> str:
    members = f" with its {_count(fields['members'], 'member')}" if fields["is_live"] else ""
    who, _, did = fields["cause"].partition(" ")
    name = name_of(who)  # that of a joiner is told with its own event, which follows
    because = f": {name} {did.replace('_', ' ')}" if name != who else ""
    return f"converted {_DIRECTIONS[fields['direction']]}{members}{because}"


def _tell_worse(fields: Fields, _name_of: _NameOf) -> str:
    return (
        f"has fallen behind since {fields['client_id']} uses {_PROTOCOLS[fields['protocol']]}:"
        f" {fields['lag_before']:,} records behind before, {fields['lag_after']:,} now;"
        " groupferry hold stops the roll, and a restart of the consumer with its former protocol"
        " takes the step back"
    )


def _tell_undone(fields: Fields, _name_of: _NameOf) -> str:
    return (
        f"its adoption was undone: {fields['reason']}; its members rejoin, and groupferry adopt"
        " tries again"
    )


def _tell_command(fields: Fields, _name_of: _NameOf) -> str:
    what = f"groupferry {fields['command']}{' --dry-run' if fields['is_trial'] else ''}"
    if fields["reasons"]:
        return f"{what} was refused: {fields['reasons'][0]} ({fields['given_by']})"
    return f"{what} ({fields['given_by']})"


def _tell_overrides(fields: Fields, _name_of: _NameOf) -> str:
    overrides = ", ".join(f"{name}={number}" for name, number in fields["overrides"].items())
    return f"its configs were altered: {overrides or 'all are the defaults now'}"


_SENTENCES: Mapping[str, _Sentence] = {
    "adoption_started": lambda fields, _: (
        f"its adoption began: the calls of {_count(fields['members'], 'member')} are held"
    ),
    "adoption_undone": _tell_undone,
    "assignment_rejected": lambda fields, _: (
        f"keeps its target assignment: the assignor {fields['assignor']} failed: {fields['reason']}"
    ),
    "client_flapped": lambda fields, _: (
        f"{fields['client_id']} has changed its protocol {fields['switches']} times within ten"
        " minutes: look at its deployment before the next step"
    ),
    "command_given": _tell_command,
    "conversion_refused": lambda fields, _: (
        f"{fields['client_id']} was refused"
        + (f": {fields['reason']}" if fields["reason"] else "")
        + "; groupferry readiness says what is in the way"
    ),
    "drain_finished": lambda fields, _: (
        "all client connections are closed"
        if fields["in_time"]
        else "client connections were cut before their last answers"
    ),
    "drain_started": lambda fields, _: (
        f"the gateway is shutting down: {_count(fields['connections'], 'connection')} to close"
    ),
    "gateway_ended": lambda _fields, _: "the gateway has ended",
    "gateway_started": lambda fields, _: (
        f"the gateway {fields['version']} serves clients at {fields['bootstrap']}"
    ),
    "generation_went_back": lambda fields, _: (
        f"the cluster's group has begun again at generation {fields['generation']}, after"
        f" {fields['generation_before']}: its members were fenced, and rejoin"
    ),
    "group_adopted": lambda fields, _: (
        f"the gateway took the group over: calls were held for {fields['held_ms']} ms"
    ),
    "group_configs_altered": _tell_overrides,
    "group_converted": _tell_conversion,
    "group_created": lambda fields, _: f"was created with {_PROTOCOLS[fields['kind']]}",
    "group_deleted": lambda _fields, _: "was deleted",
    "group_forwarded": lambda fields, _: f"the cluster serves it from now on: {fields['reason']}",
    "group_released": lambda fields, _: (
        "the cluster has the group back: its partitions were without an owner for"
        f" {fields['unowned_ms'] / 1000:.1f} s"
    ),
    "group_taken": lambda fields, _: (
        "its members were fenced, because others hold the group in the cluster:"
        f" {fields['reason']}; point them at the gateway, or release the group"
    ),
    "hosting_ended": lambda fields, _: (
        f"the gateway no longer hosts it: {_HOSTING_ENDS[fields['cause']]}"
    ),
    "anchor_joined": lambda _fields, _: "its anchor has joined the group in the cluster",
    "hosting_started": lambda fields, _: f"the gateway hosts it: {fields['reason']}",
    "member_fenced": lambda fields, name_of: (
        f"{name_of(fields['member_id'])} {_LEFT[fields['cause']]}"
    ),
    "member_joined": lambda fields, _: (
        f"{fields['client_id'] or fields['member_id']} joined with {_PROTOCOLS[fields['protocol']]}"
    ),
    "member_left": lambda fields, name_of: (
        f"{name_of(fields['member_id'])} {_LEFT[fields['cause']]}"
    ),
    "member_replaced": lambda fields, name_of: (
        f"{name_of(fields['member_id'])} came back under another member id and kept its partitions"
    ),
    "member_switched": lambda fields, name_of: (
        f"{name_of(fields['member_id'])} switched to {_PROTOCOLS[fields['protocol']]}"
    ),
    "offsets_deleted": lambda fields, _: (
        f"an admin deleted committed offsets of {', '.join(sorted(fields['partitions']))}"
    ),
    "readiness_changed": _tell_readiness,
    "rebalance_ended": _tell_rebalance,
    "release_started": lambda fields, _: (
        f"its release began: {_count(fields['members'], 'member')} are told to rejoin"
    ),
    "step_ended": _tell_step,
    "step_made_worse": _tell_worse,
    "topics_deleted": lambda fields, _: f"topics were deleted: {', '.join(fields['topics'])}",
    "upstream_back": lambda _fields, _: "the cluster answers again",
    "upstream_lost": lambda fields, _: (
        f"no broker of the cluster answers: {fields['reason']}; trying again in"
        f" {fields['next_retry_s']:.0f} s"
    ),
}

DETAILS = frozenset(
    {
        *("client_seen", "cluster_members_seen", "grant_ended", "group_epoch_bumped"),
        *("group_loaded", "group_state_changed", "member_chosen_to_compute"),
        *("member_state_changed", "offsets_committed", "offsets_fetched", "partitions_assigned"),
        *("partitions_revoked", "partitions_stated", "regex_resolved", "target_computed"),
        "transaction_ended",
    }
)
"""Events that are no sentences."""
