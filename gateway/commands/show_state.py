"""`groupferry state`: prints the records of the state log, then who answers for each group, as JSON
lines.

Changes nothing and takes no lock, so it can run while a gateway does.
"""

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import UUID

from confluent_kafka import KafkaException

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_topics import list_topics
from gateway.events.catalog import BadLine, read_line
from gateway.events.event import Envelope
from gateway.events.group_events import (
    AdoptionStarted,
    AdoptionUndone,
    GroupDeleted,
    GroupForwarded,
    GroupReleased,
    HostingStarted,
    ReleaseStarted,
)
from gateway.fleet.fleet_state import read_state as read_fleet
from gateway.fleet.fleet_state import shard_folder
from gateway.hosting.states import Mode
from gateway.journal.line_files import PATTERN, folders_below
from gateway.readable import escape
from gateway.state_folder import cluster_of
from gateway.state_log.kafka.content import LOG_ID_KEY, check_cluster, content_of, newest
from gateway.state_log.kafka.kafka_log import CLIENT_ID
from gateway.state_log.kafka.reading import read_all
from gateway.state_log.log import StateLogError
from gateway.state_log.record_format import Entry
from gateway.state_log.sqlite_reader import read_state
from kafka_codecs import WireError, state_records
from kafka_codecs.consumer_protocol import decode_assignment, decode_subscription
from kafka_codecs.declaration import Struct

_MODES = {
    HostingStarted.name: Mode.HOSTED,
    GroupForwarded.name: Mode.FORWARDED,
    AdoptionStarted.name: "Adopting",
    AdoptionUndone.name: Mode.FORWARDED,
    ReleaseStarted.name: "Releasing",
    GroupReleased.name: Mode.FORWARDED,
}
"""What the latest of these events says."""
_ABOUT_MODES = tuple(f'"event":"{name}"'.encode() for name in (*_MODES, GroupDeleted.name))


def print_folder(folder: Path, group_id: str | None) -> bool:
    """Print the records of a SQLite log, or of all shards of a fleet, optionally of one group.
    False if there is no log.

    Raises StateLogUnusable, StateFolderError.
    """
    fleet = read_fleet(folder)
    folders: dict[Path, dict[str, int]]
    if fleet is None:
        folders = {folder: {}}
    else:
        shards = range(fleet.shards)
        folders = {shard_folder(folder, shard): {"shard": shard} for shard in shards}
    states = [(state, folders[one]) for one in folders if (state := read_state(one)) is not None]
    if not states:
        return False
    if group_id is None and (cluster_id := cluster_of(folder)) is not None:
        _print({"cluster_id": cluster_id})
    for state, place in states:
        for row in state.rows:
            _show({**place, "position": row.position}, row.entry, group_id)
    log_id = states[0][0].head.log_id if fleet is None else fleet.log_id
    _show_modes(folder, group_id, log_id)
    return True


def print_topic(
    upstream: Sequence[Address], topic: str, group_id: str | None, access: Access = PLAIN_ACCESS
) -> None:
    """Print the records of a log in the cluster: all of them, or those of one group.

    Raises StateLogError, and at the end StateLogUnusable if the log is a copy of another cluster's.
    """
    config = client_config(upstream, CLIENT_ID, access)
    try:
        metadata = list_topics(config)
        if topic not in metadata.topics:
            raise StateLogError(f"there is no topic {topic} in the cluster; see --state-topic")
    except KafkaException as error:
        raise StateLogError(f"topic {topic} cannot be read: {error.args[0].str()}") from None
    partitions = sorted(metadata.topics[topic].partitions)
    for partition in partitions:
        entries = tuple(newest(read_all(config, topic=topic, partitions=(partition,))))
        place = {"partition": partition} if len(partitions) > 1 else {}
        for position, (offset, key, value) in enumerate(entries, start=1):
            _show({**place, "position": position, "offset": offset}, Entry(key, value), group_id)
        log_content = content_of(entry for entry in entries if entry.key == LOG_ID_KEY)
        check_cluster(log_content.cluster_id, metadata.cluster_id, topic=topic)


def _show_modes(state_folder: Path, group_id: str | None, log_id: str) -> None:
    """Print who answers for each group, as the gateway of this log has told last."""
    latest: dict[str | None, Envelope] = {}
    paths = [path for folder in folders_below(state_folder) for path in folder.glob(PATTERN)]
    for path in sorted(paths, key=_name):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            for data in file:
                # Most lines are about something else, and reading one takes a hundred times longer.
                if not any(mark in data for mark in _ABOUT_MODES):
                    continue
                with contextlib.suppress(BadLine):
                    envelope = read_line(data)
                    if envelope.gateway_id == log_id:  # the folder may have had another log before
                        latest[envelope.group_id] = envelope
    for shown_id, envelope in latest.items():
        mode = _MODES.get(envelope.event)
        if mode is not None and group_id in (None, shown_id):
            shown = {
                "group_id": shown_id,
                "mode": str(mode),
                **envelope.fields.fields,
                "at_ms": envelope.at_ms,
            }
            _print(shown)


def _name(path: Path) -> str:
    """The time of a file's creation is in its name."""
    return path.name


def _show(place: dict[str, int], entry: Entry, group_id: str | None) -> None:
    assert entry.value is not None
    entry_group_id = None
    try:
        record_type, key = state_records.decode_key(entry.key)
        entry_group_id = getattr(key, "group_id", None)
        value = state_records.decode_value(record_type, entry.value)
        shown = {
            "type": record_type.name,
            **_as_json("key", key),
            "value": _as_json("value", value),
        }
    except WireError as error:
        shown = {"unreadable": str(error), "key": entry.key.hex(), "value": entry.value.hex()}
        if entry_group_id is not None:
            shown = {"group_id": entry_group_id, **shown}
    if group_id is None or entry_group_id == group_id:
        _print(place | shown)


def _print(line: Mapping[str, Any]) -> None:
    sys.stdout.write(escape(json.dumps(line, ensure_ascii=False)) + "\n")


def _as_json(name: str, value: Any) -> Any:
    match value:
        case Struct():
            known = [field.name for field in fields(value) if field.name != "unknown_tags"]
            shown = {
                field_name: _as_json(field_name, getattr(value, field_name)) for field_name in known
            }
            if value.unknown_tags:
                shown["unknown_tags"] = {tag: data.hex() for tag, data in value.unknown_tags}
            return shown
        case tuple():
            return [_as_json(name, item) for item in value]
        case bytes() if name == "lines":
            return value.decode(errors="replace")
        case bytes():
            return _decode_embedded(name, value)
        case UUID():
            return str(value)
        case _:
            return value


def _decode_embedded(name: str, data: bytes) -> Any:
    """Bytes from a member's client or its leader: decoded if they are well-formed, else as hex."""
    decode = decode_assignment if name == "assignment" else decode_subscription
    try:
        version, decoded = decode(data)
    except WireError:
        return data.hex()
    return {"version": version, **_as_json(name, decoded)}
