"""`groupferry state`: what the state log holds, one JSON line per record.

Changes nothing and takes no lock, so it can look while a gateway runs.
"""

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import UUID

from gateway.state_log.sqlite_reader import StoredRow, read_state
from kafka_codecs import WireError, state_records
from kafka_codecs.consumer_protocol import decode_assignment, decode_subscription
from kafka_codecs.declaration import Struct


def run(folder: Path, group_id: str | None) -> bool:
    """Print the records, of one group or of all; False if the folder has no state log.

    Raises StateLogUnusable.
    """
    state = read_state(folder)
    if state is None:
        return False
    for row in state.rows:
        if group_id is None or row.group_id == group_id:
            sys.stdout.write(json.dumps(_shown(row), ensure_ascii=False) + "\n")
    return True


def _shown(row: StoredRow) -> dict[str, Any]:
    record_type, key = state_records.decode_key(row.entry.key)
    assert row.entry.value is not None
    value = state_records.decode_value(record_type, row.entry.value)
    return {
        "position": row.position,
        "type": record_type.name,
        **_as_json("key", key),
        "value": _as_json("value", value),
    }


def _as_json(name: str, value: Any) -> Any:
    match value:
        case Struct():
            known = [each.name for each in fields(value) if each.name != "unknown_tags"]
            shown = {each: _as_json(each, getattr(value, each)) for each in known}
            if value.unknown_tags:
                shown["unknown_tags"] = {tag: data.hex() for tag, data in value.unknown_tags}
            return shown
        case tuple():
            return [_as_json(name, each) for each in value]
        case bytes():
            return _embedded(name, value)
        case UUID():
            return str(value)
        case _:
            return value


def _embedded(name: str, data: bytes) -> Any:
    """What a member's client or its leader wrote: decoded if it is what it should be, else hex."""
    decode = decode_assignment if name == "assignment" else decode_subscription
    try:
        version, decoded = decode(data)
    except WireError:
        return data.hex()
    return {"version": version, **_as_json(name, decoded)}
