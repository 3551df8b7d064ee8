"""Tells events as sentences: the story that log, terminal and page show to people.

Only what an operator acts on, or waits for, is a sentence (`_SENTENCES`). The other events are
details: they state what each cause did to partitions and epochs, and stay one key away. Where one
cause leads to several events, one sentence covers them: an adoption, a release, a command.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator.interface.roll_policy import HIDDEN_NAMES
from gateway.events.event import GatewayEvent

NAMES_MAX = 20_000
"""Members whose client ids are remembered. Of more, those seen first are forgotten."""
MOVES_MAX = 10_000
"""Groups whose moves, and whose configs, are remembered. Of more, the oldest are forgotten."""
NAMED_MAX = 3
"""Blockers or members named in a sentence; the others are only counted."""

WITH_CLUSTER = "the cluster serves it"
"""The beginning of a reason that the sentence of `group_forwarded` has given."""

_GENERATED_ID = re.compile(r"(?P<client_id>.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The id that a coordinator gives a classic member."""

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
_PLURALS = (("was ", "were "), (" it ", " they "), (" its session", " their sessions"))
_HOSTING_ENDS = {
    "released": "the cluster has the group back",
    "taken": "another member holds the group in the cluster",
    "anchor_lost": "the gateway lost its place in the cluster's group",
    "group_deleted": "the group was deleted",
    "gateway_ended": "the gateway ended",
    "forgotten": "the empty group was forgotten",
}


class _Departures(NamedTuple):
    """Members of a group that have gone at one time for one cause."""

    cause: str
    at_ms: int
    names: tuple[str, ...]
    """The first few."""
    members: int


class Narrator:
    """Knows members by the ids of their clients, and narrates events in order."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}
        self._moving: dict[str, list[str]] = {}
        """The members of each group that an adoption brings here, or a release takes away."""
        self._departures: dict[str, _Departures] = {}
        """The latest of each group."""
        self.has_joined = False
        """Whether the latest sentence stands for the one before of its group as well."""
        self._configs: dict[str, Fields] = {}
        """The overrides of each group that operators have been told."""

    def learn(self, event: GatewayEvent, group_id: str | None) -> None:
        """Learn the names of members from an event that is not told, one of NAMING."""
        self._learn(event.name, group_id or "", event.fields)

    def narrate_event(
        self, event: GatewayEvent, group_id: str | None, at_ms: int | None = None
    ) -> str:
        """The event as a sentence; empty for a detail. Learns the names of members from it.
        `at_ms`: when it was, if a sentence may stand for the one before of its group as well
        (`has_joined`): several members that were removed at one time share a sentence."""
        self.has_joined = False
        if event.name not in _SENTENCES and event.name not in NAMING:
            return ""  # most events are details, whose fields need not be collected
        sentence = self.narrate(event.name, group_id, event.fields)
        if not sentence or at_ms is None:
            return sentence
        if event.name not in ("member_left", "member_fenced"):
            self._departures.pop(group_id or "", None)
            return sentence
        return self._join(event.fields, group_id or "", at_ms) or sentence

    def _join(self, fields: Fields, group_id: str, at_ms: int) -> str:
        """All that have gone at this time for this cause; empty if it is only one."""
        cause, name = fields["cause"], self._name_of(group_id, fields["member_id"])
        before = self._departures.pop(group_id, None)
        self.has_joined = before is not None and (before.cause, before.at_ms) == (cause, at_ms)
        names: tuple[str, ...] = (name,)
        members = 1
        if before is not None and self.has_joined:
            names, members = (*before.names, name)[:NAMED_MAX], before.members + 1
        self._departures[group_id] = _Departures(cause, at_ms, names, members)
        if len(self._departures) > MOVES_MAX:
            del self._departures[next(iter(self._departures))]
        if not self.has_joined:
            return ""
        did = _LEFT[cause]
        for one, many in _PLURALS:
            did = did.replace(one, many)
        return f"{_name_few(names, members)} {did}"

    def narrate(self, event: str, group_id: str | None, fields: Fields) -> str:
        """An event of this name as a sentence; empty for a detail. `fields` are those of its JSON
        line."""
        self._learn(event, group_id or "", fields)
        make = _SENTENCES.get(event)
        if make is None or self._is_part(event, group_id or "", fields):
            return ""
        sentence = make(fields, lambda member_id: self._name_of(group_id or "", member_id))
        return sentence + self._name_moved(event, group_id or "")

    def _is_part(self, event: str, group_id: str, fields: Fields) -> bool:
        """Whether another sentence covers the event: that of the move or the command which has
        caused it."""
        match event:
            case "adoption_started":
                self._remember_move(group_id, [])
            case "member_left" if fields["cause"] == "released":
                self._remember_move(group_id, self._moving.get(group_id, []))
                self._moving[group_id].append(self._name_of(group_id, fields["member_id"]))
                return True
            case "member_joined" if group_id in self._moving:
                self._moving[group_id].append(self._name_of(group_id, fields["member_id"]))
                return True
            case "group_created" | "group_deleted" | "hosting_started":
                return group_id in self._moving
            case "adoption_undone" | "member_left" | "member_fenced" | "rebalance_ended":
                self._moving.pop(group_id, None)
            case "gateway_started":
                self._moving.clear()  # the moves of a process that was killed end untold
            case "hosting_ended":
                return bool(fields["cause"] == "released")
            case "group_forwarded":
                return bool(fields["reason"] == "released")
            case "group_configs_altered":
                return not self._has_news(group_id, fields["overrides"])
            case _:
                pass
        return False

    def _remember_move(self, group_id: str, names: list[str]) -> None:
        self._moving.pop(group_id, None)
        self._moving[group_id] = names
        if len(self._moving) > MOVES_MAX:
            del self._moving[next(iter(self._moving))]

    def _name_moved(self, event: str, group_id: str) -> str:
        """The members that moved with the group, for the end of the sentence about the move."""
        if event not in ("group_adopted", "group_released"):
            return ""
        names = self._moving.pop(group_id, [])
        return f" ({_name_few(names, len(names))})" if names else ""

    def _has_news(self, group_id: str, overrides: Fields) -> bool:
        """Whether configs have changed that are not set by the command of an operator, which has a
        sentence of its own."""
        shown = {name: number for name, number in overrides.items() if name not in HIDDEN_NAMES}
        before = self._configs.pop(group_id, {})
        if shown:
            self._configs[group_id] = shown
            if len(self._configs) > MOVES_MAX:
                del self._configs[next(iter(self._configs))]
        return shown != before

    def _name_of(self, group_id: str, member_id: str) -> str:
        name = self._names.get((group_id, member_id))
        if name is None and (generated := _GENERATED_ID.fullmatch(member_id)) is not None:
            name = generated["client_id"]
        return name or member_id

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
"""Details that name the clients of members."""

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


def _tell_given_up(fields: Fields, _name_of: _NameOf) -> str:
    shards = _count(len(fields["shards"]), "shard")
    if not fields["groups"]:  # no process has to take them over: the whole fleet may be ending
        return f"the process has given up {shards}"
    groups = _count(fields["groups"], "group")
    return f"the process has left {shards} to another one, with {groups}, in {fields['took_ms']} ms"


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
    if any(blocker["reason"].startswith(WITH_CLUSTER) for blocker in fields["blocked_by"]):
        return ""  # the sentence that the cluster serves it says why
    if fields["can_convert"]:
        return f"can convert {direction} now"
    blockers = _name_blockers(fields["blocked_by"], fields["blockers"])
    return f"cannot convert {direction} yet: {blockers}"


def _name_blockers(blockers: Iterable[Fields], count: int) -> str:
    reasons = [
        ": ".join(filter(None, (blocker["client_id"], blocker["reason"]))) for blocker in blockers
    ]
    return _name_few(reasons, count, "; ")


def _name_few(names: Sequence[str], count: int, separator: str = ", ") -> str:
    """The first few of these names."""
    named = names[:NAMED_MAX]
    more = count - len(named)
    return separator.join(named) + (f"{separator}and {more:,} more" if more > 0 else "")


def _tell_conversion(fields: Fields, name_of: _NameOf) -> str:
    members = f" with its {_count(fields['members'], 'member')}" if fields["is_live"] else ""
    who, _, did = fields["cause"].partition(" ")
    name = name_of(who)  # that of a joiner is part of its own event, which follows
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
    overrides = ", ".join(
        f"{name}={number}"
        for name, number in fields["overrides"].items()
        if name not in HIDDEN_NAMES
    )
    return f"its configs were altered: {overrides or 'all are the defaults now'}"


_SENTENCES: Mapping[str, _Sentence] = {
    "adoption_started": lambda fields, _: (
        f"its adoption began: the calls of {_count(fields['members'], 'member')} are held"
    ),
    "adoption_undone": _tell_undone,
    "assignment_rejected": lambda fields, _: (
        f"keeps its target assignment: the assignor {fields['assignor']} failed:"
        f" {fields['reason']}; mend it, or let the server assign"
    ),
    "client_flapped": lambda fields, _: (
        f"{fields['client_id']} has changed its protocol {fields['switches']} times within ten"
        " minutes: look at its deployment before the next step (groupferry hold stops the roll)"
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
        f"the gateway {fields['version']} serves clients at {fields['bootstrap']}, in front of"
        f" {_count(len(fields['brokers']), 'broker')}"
    ),
    "generation_went_back": lambda fields, _: (
        f"the cluster's group has begun again at generation {fields['generation']}, after"
        f" {fields['generation_before']}: its members were fenced, and rejoin; look at the"
        " coordinator's log, and compare the offsets"
    ),
    "group_adopted": lambda fields, _: (
        f"the gateway took the group over: calls were held for {fields['held_ms']} ms"
    ),
    "group_configs_altered": _tell_overrides,
    "group_converted": _tell_conversion,
    "group_created": lambda fields, _: f"was created with {_PROTOCOLS[fields['kind']]}",
    "group_deleted": lambda _fields, _: "the gateway no longer keeps anything of it",
    "group_forwarded": lambda fields, _: f"the cluster serves it from now on: {fields['reason']}",
    "group_released": lambda fields, _: (
        "the cluster has the group back: its partitions were without an owner for"
        f" {fields['unowned_ms'] / 1000:.1f} s"
        if fields["unowned_ms"]
        else "the cluster has the group back"
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
    "shards_given_up": _tell_given_up,
    "shards_taken": lambda fields, _: (
        f"the process serves {_count(len(fields['shards']), 'shard')} of another one"
    ),
    "step_ended": _tell_step,
    "step_made_worse": _tell_worse,
    "topics_deleted": lambda fields, _: f"topics were deleted: {', '.join(fields['topics'])}",
    "upstream_back": lambda _fields, _: "the cluster answers again",
    "upstream_lost": lambda fields, _: (
        f"no broker of the cluster answers: {fields['reason']}; check the cluster and the network,"
        f" trying again in {fields['next_retry_s']:.0f} s"
    ),
}
"""The sentence of each event that operators should read."""
