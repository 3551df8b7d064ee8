"""Plays stories: transcripts of what gateways wrote, and the verdict on it.

A story is a text file: sentences, a line `----`, and what the pipeline says. A sentence is a time
in seconds, a gateway if it is not `g`, a verb, and its words:

    0 start                     the gateway starts; `stop` ends it
    1 host 5                    it hosts the group; the anchor's generation, `-` if not stated
    2 anchor 5                  its anchor joins later, in this generation
    1 load a:t-0,t-1 b:t-2      the state of the group; without members it is empty
    2 grant a t-0 t-1           a member is granted partitions
    9 end a t-0 left            the grant ended, with its cause
    3 fetch a t-0=50            a member is told an offset; `t-0=-` that there is none
    4 commit a t-0=51           ... has committed it; `t-0=51/40/55` first, lowest and last
    4 commit a t-0=51 since=3   ... the first of the commits was stored at 3
    4 commit a t-0=51 asked=3   ... the commit was requested at 3
    4 commit - t-0=51           a client outside the group has
    5 claim a t-0               a member states its partitions
    4 tx T a t-0=51             a member has committed in a transaction of producer T
    5 endtx T committed         that transaction ended; or `aborted`
    6 forward                   the cluster has the group from now on
    6 unhost released           the hosting ended, with its cause
    7 topics-deleted t          topics are gone
    7 event NAME FIELDS         any other event, with its fields as JSON
    7 cluster x:t-0 y:t-1       the members that the cluster shows
    - run 2                     a process of a fleet, among those that have the same log
    - topic-id t T2             from now on lines state the id of the topic; none without one
    - cluster-id NAME           from now on lines of another cluster
    - repeat                    all lines are there twice
    - lose 2                    numbers of the group's sequence that no line has
    - lose-process 2            the same of the process
    - old                       from now on lines of version 1
    - forget                    the group's sequence begins again
    - new-run                   the process was killed, the next one has the same log
    - raw TEXT                  a line with this text
    - group NAME                from now on lines of another group
    - cut 9                     the last line lacks its end
    - join                      the last two lines are one
    - drop NAME                 all lines of an event are gone; their numbers, too

`@g2` after the time names another gateway. What the pipeline says is the verdict, and after `show
TABLE COLUMN ...` the rows of a table.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.events.catalog import EVENTS
from gateway.events.version_1 import RENAMED
from gateway.pipeline.fold.folding import SourceLine, fold_lines
from gateway.pipeline.fold.rows import ALL_ROWS, Tables
from gateway.pipeline.report.summary import Summary
from gateway.pipeline.report.verdict import judge

START_MS = 1_700_035_200_000
"""2023-11-15 08:00 UTC."""
SEPARATOR = "----\n"
GROUP = "orders"


@dataclass
class Gateway:
    """One gateway's log."""

    name: str
    run: int = 1
    hosting: int | None = None
    hostings: int = 0
    sequence: int = 0
    began_ms: int = START_MS
    process_sequence: int = 0
    others: dict[str, tuple[int | None, int]] = field(default_factory=dict)
    """The hosting and the sequence of each other group."""
    other_runs: dict[int, tuple[int | None, int]] = field(default_factory=dict)
    """The hosting and the sequence of each other process."""

    @property
    def process_id(self) -> str:
        return f"{self.name}-{self.run}"


class Story:
    """Writes the lines of a story."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.shows: list[list[str]] = []
        self.group_id = GROUP
        self.cluster_id: str | None = "c"
        self._gateways: dict[str, Gateway] = {}
        self._version = 2
        self._topic_ids: dict[str, str] = {}

    def emit(self, sentence: str) -> None:
        """Write the lines of one sentence."""
        at, *words = sentence.split()
        if at == "show":
            self.shows.append(words)
            return
        name = words.pop(0)[1:] if words[0].startswith("@") else "g"
        gateway = self._gateways.setdefault(name, Gateway(name))
        at_ms = 0 if at == "-" else START_MS + round(float(at) * 1000)
        getattr(self, "_" + words[0].replace("-", "_"))(gateway, at_ms, *words[1:])

    def _start(self, gateway: Gateway, at_ms: int) -> None:
        started: dict[str, Any] = {
            "version": "1",
            "bootstrap": "b:1",
            "cluster_id": self.cluster_id,
            "brokers": [1],
        }
        if gateway.run > 1 and not gateway.other_runs:
            started["previous_run"] = gateway.run - 1
        self._of_process(gateway, at_ms, "gateway_started", started, about=None)

    def _stop(self, gateway: Gateway, at_ms: int) -> None:
        if gateway.hosting is not None:
            self._unhost(gateway, at_ms, "gateway_ended")
        self._of_process(gateway, at_ms, "gateway_ended", {}, about=None)

    def _host(self, gateway: Gateway, at_ms: int, generation: str) -> None:
        gateway.hostings += 1
        gateway.hosting = gateway.hostings
        number = None if generation == "-" else int(generation)
        fields = {"reason": "it is free", "anchor_generation": number}
        self._of_process(gateway, at_ms, "hosting_started", fields)

    def _anchor(self, gateway: Gateway, at_ms: int, generation: str) -> None:
        fields = {"anchor_generation": int(generation)}
        self._of_process(gateway, at_ms, "anchor_joined", fields)

    def _unhost(self, gateway: Gateway, at_ms: int, cause: str) -> None:
        self._of_process(gateway, at_ms, "hosting_ended", {"cause": cause})
        gateway.hosting = None

    def _forward(self, gateway: Gateway, at_ms: int) -> None:
        gateway.hosting = None
        self._of_process(gateway, at_ms, "group_forwarded", {"reason": "it was released"})

    def _load(self, gateway: Gateway, at_ms: int, *members: str) -> None:
        self._load_snapshots(gateway, at_ms, "group_loaded", members)

    def _cluster(self, gateway: Gateway, at_ms: int, *members: str) -> None:
        self._load_snapshots(gateway, at_ms, "cluster_members_seen", members)

    def _load_snapshots(
        self, gateway: Gateway, at_ms: int, event: str, members: Sequence[str]
    ) -> None:
        snapshots = []
        for member in members:
            member_id, _, partitions = member.partition(":")
            snapshots.append(
                {
                    "member_id": member_id,
                    "instance_id": None,
                    "client_id": member_id,
                    "client_host": "h",
                    "protocol": "consumer",
                    "member_epoch": 1,
                    "partitions": _partitions(partitions.split(",") if partitions else ()),
                }
            )
        fields: dict[str, Any] = {"kind": "consumer", "state": "Stable", "members": snapshots}
        if event == "group_loaded":
            fields["group_epoch"] = 1
        self._of_process(gateway, at_ms, event, fields)

    def _create(self, gateway: Gateway, at_ms: int) -> None:
        self._of_group(gateway, at_ms, "group_created", {"kind": "consumer"})

    def _grant(self, gateway: Gateway, at_ms: int, member_id: str, *partitions: str) -> None:
        fields = {"member_id": member_id, "member_epoch": 1, "partitions": _partitions(partitions)}
        self._of_group(gateway, at_ms, "partitions_assigned", fields)

    def _end(self, gateway: Gateway, at_ms: int, member_id: str, *words: str) -> None:
        *partitions, cause = words
        fields = {"member_id": member_id, "member_epoch": 1, "partitions": _partitions(partitions)}
        self._of_group(gateway, at_ms, "grant_ended", {**fields, "cause": cause})

    def _claim(self, gateway: Gateway, at_ms: int, member_id: str, *partitions: str) -> None:
        fields = {"member_id": member_id, "member_epoch": 1, "partitions": _partitions(partitions)}
        self._of_process(gateway, at_ms, "partitions_stated", fields)

    def _fetch(self, gateway: Gateway, at_ms: int, member_id: str, *offsets: str) -> None:
        starts: dict[str, list[dict[str, int]]] = {}
        for topic, number, value in map(_offset, offsets):
            offset = -1 if value == "-" else int(value)
            starts.setdefault(topic, []).append({"partition": number, "offset": offset})
        fields = {"member_id": _member(member_id), "starts": starts}
        self._of_process(gateway, at_ms, "offsets_fetched", fields)

    def _commit(
        self,
        gateway: Gateway,
        at_ms: int,
        member_id: str,
        *words: str,
        transactional_id: str | None = None,
    ) -> None:
        offsets: dict[str, list[dict[str, int]]] = {}
        from_ms = requested_ms = at_ms
        for word in words:
            name, _, value = word.partition("=")
            if name == "since":
                from_ms = requested_ms = START_MS + round(float(value) * 1000)
            elif name == "asked":
                requested_ms = START_MS + round(float(value) * 1000)
            else:
                topic, number, value = _offset(word)
                first, lowest, last = value.split("/") if "/" in value else [value] * 3
                commits = 3 if "/" in value else 1
                entry = {"partition": number, "commits": commits, "first": int(first)}
                entry |= {"lowest": int(lowest), "last": int(last)}
                offsets.setdefault(topic, []).append(entry)
        fields = {
            "member_id": _member(member_id),
            "is_transactional": transactional_id is not None,
            "from_ms": from_ms,
            "to_ms": at_ms,
            "offsets": offsets,
        }
        if self._version == 2:
            fields |= {
                "transactional_id": None if transactional_id == "-" else transactional_id,
                "requested_ms": requested_ms,
                "first_sequence": gateway.sequence,
                "last_sequence": gateway.sequence,
            }
        self._of_process(gateway, at_ms, "offsets_committed", fields)

    def _tx(self, gateway: Gateway, at_ms: int, name: str, member_id: str, *words: str) -> None:
        self._commit(gateway, at_ms, member_id, *words, transactional_id=name)

    def _endtx(self, gateway: Gateway, at_ms: int, name: str, how: str) -> None:
        fields = {"transactional_id": name, "is_committed": how == "committed", "member_id": ""}
        self._of_process(gateway, at_ms, "transaction_ended", fields)

    def _topics_deleted(self, gateway: Gateway, at_ms: int, *topics: str) -> None:
        self._of_group(gateway, at_ms, "topics_deleted", {"topics": topics})

    def _delete_offsets(self, gateway: Gateway, at_ms: int, *partitions: str) -> None:
        fields = {"partitions": _partitions(partitions)}
        self._of_process(gateway, at_ms, "offsets_deleted", fields)

    def _event(self, gateway: Gateway, at_ms: int, name: str, *words: str) -> None:
        self._of_process(gateway, at_ms, name, json.loads(" ".join(words) or "{}"))

    def _lose(self, gateway: Gateway, _at_ms: int, count: str) -> None:
        gateway.sequence += int(count)

    def _lose_process(self, gateway: Gateway, _at_ms: int, count: str) -> None:
        gateway.process_sequence += int(count)

    def _old(self, _gateway: Gateway, _at_ms: int) -> None:
        self._version = 1

    def _group(self, _gateway: Gateway, _at_ms: int, group_id: str) -> None:
        for gateway in self._gateways.values():
            gateway.others[self.group_id] = gateway.hosting, gateway.sequence
            gateway.hosting, gateway.sequence = gateway.others.get(group_id, (None, 0))
        self.group_id = group_id

    def _forget(self, gateway: Gateway, _at_ms: int) -> None:
        gateway.sequence = 0
        gateway.began_ms += 1_000_000

    def _new_run(self, gateway: Gateway, _at_ms: int) -> None:
        gateway.run += 1
        gateway.process_sequence = gateway.hostings = 0
        gateway.hosting = None

    def _run(self, gateway: Gateway, _at_ms: int, run: str) -> None:
        gateway.other_runs[gateway.run] = gateway.hosting, gateway.process_sequence
        gateway.run = int(run)
        gateway.hosting, gateway.process_sequence = gateway.other_runs.get(gateway.run, (None, 0))

    def _topic_id(self, _gateway: Gateway, _at_ms: int, topic: str, topic_id: str = "") -> None:
        self._topic_ids.pop(topic, None)
        if topic_id:
            self._topic_ids[topic] = topic_id

    def _repeat(self, _gateway: Gateway, _at_ms: int) -> None:
        self.lines += self.lines

    def _cluster_id(self, _gateway: Gateway, _at_ms: int, cluster_id: str) -> None:
        self.cluster_id = None if cluster_id == "-" else cluster_id

    def _raw(self, _gateway: Gateway, _at_ms: int, *words: str) -> None:
        self.lines.append(" ".join(words))

    def _cut(self, _gateway: Gateway, _at_ms: int, count: str) -> None:
        self.lines[-1] = self.lines[-1][: -int(count)]

    def _join(self, _gateway: Gateway, _at_ms: int) -> None:
        self.lines[-2:] = ["".join(self.lines[-2:])]

    def _drop(self, _gateway: Gateway, _at_ms: int, name: str) -> None:
        self.lines = [line for line in self.lines if json.loads(line)["event"] != name]

    def _of_group(self, gateway: Gateway, at_ms: int, event: str, fields: dict[str, Any]) -> None:
        gateway.sequence += 1
        self._write(gateway, at_ms, event, fields, process_id=None, sequence=gateway.sequence)

    def _of_process(
        self,
        gateway: Gateway,
        at_ms: int,
        event: str,
        fields: dict[str, Any],
        about: str | None = "group",
    ) -> None:
        gateway.process_sequence += 1
        self._write(
            gateway,
            at_ms,
            event,
            fields,
            process_id=gateway.process_id,
            sequence=gateway.process_sequence,
            is_about_group=about is not None,
        )

    def _write(
        self,
        gateway: Gateway,
        at_ms: int,
        event: str,
        fields: dict[str, Any],
        *,
        process_id: str | None,
        sequence: int,
        is_about_group: bool = True,
    ) -> None:
        if self._topic_ids and event in _WITH_TOPIC_IDS:
            fields["topic_ids"] = self._topic_ids.copy()
        line: dict[str, Any] = {
            "version": 2,
            "event": event,
            "schema_version": EVENTS[event].schema_version if event in EVENTS else 1,
            "cluster_id": self.cluster_id,
            "gateway_id": gateway.name,
            "run": gateway.run,
            "hosting": gateway.hosting if is_about_group else None,
            "group_id": self.group_id if is_about_group else None,
            "process_id": process_id,
            "sequence": sequence,
            "began_ms": gateway.began_ms if is_about_group else None,
            "after": gateway.sequence if process_id and is_about_group else None,
            "at_ms": at_ms,
            "fields": fields,
        }
        if self._version == 1:
            for name in ("version", "cluster_id", "run", "hosting"):
                del line[name]
            line["event"] = {new: old for old, new in RENAMED.items()}.get(event, event)
            fields.pop("cause", None)
        self.lines.append(json.dumps(line))


_WITH_TOPIC_IDS = frozenset(
    name for name, event in EVENTS.items() if "topic_ids" in event.__dataclass_fields__
)


def _member(name: str) -> str:
    return "" if name == "-" else name


def _offset(word: str) -> tuple[str, int, str]:
    place, _, value = word.partition("=")
    topic, _, number = place.rpartition("-")
    return topic, int(number), value


def _partitions(places: Sequence[str]) -> dict[str, list[int]]:
    partitions: dict[str, list[int]] = {}
    for place in places:
        topic, _, number = place.rpartition("-")
        partitions.setdefault(topic, []).append(int(number))
    return partitions


def play_story(text: str) -> Story:
    """The story that these sentences tell."""
    story = Story()
    for sentence in text.splitlines():
        words = sentence.partition("#")[0]
        if words.strip():
            story.emit(words)
    return story


def outcome(text: str) -> str:
    """What the pipeline says of a story."""
    story = play_story(text)
    made, summary = Tables(), Summary()
    for tables in fold_lines(
        SourceLine("file", f"line {number}", line) for number, line in enumerate(story.lines, 1)
    ):
        summary.add(tables)
        for name in ALL_ROWS:
            getattr(made, name).extend(getattr(tables, name))
    lines = list(judge(summary).lines)
    for table, *names in story.shows:
        lines.append(f"{table}:")
        lines += sorted(_format_row(row, names) for row in getattr(made, table))
    return "".join(f"{line}\n" for line in lines)


def _format_row(row: Any, names: Sequence[str]) -> str:
    values = []
    for name in names:
        value = getattr(row, name)
        if value is not None and name.endswith("_ms") and name != "unowned_ms":
            value = (value - START_MS) / 1000
        values.append("-" if value is None else f"{value}")
    return "  " + " ".join(values)


def sections(path: Path) -> tuple[str, str]:
    """The sentences of a file, and the expected outcome."""
    sentences, _, expected = path.read_text().partition(SEPARATOR)
    return sentences, expected


def stories(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.txt"))
