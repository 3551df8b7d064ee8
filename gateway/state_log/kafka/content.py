"""What is in the log, from its bytes: the live records of each group, and whose log it is."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.state_log.compacted import CompactedLog
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.record_format import Entry, decode_record
from kafka_codecs.errors import WireError
from kafka_codecs.state_records import (
    LogIdValue,
    LogKey,
    LogOwnerValue,
    LogRenewalValue,
    RecordType,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

LOG_ID_KEY = encode_key(RecordType.LOG_ID, LogKey())
LOG_OWNER_KEY = encode_key(RecordType.LOG_OWNER, LogKey())
LOG_RENEWAL_KEY = encode_key(RecordType.LOG_RENEWAL, LogKey())


@dataclass(slots=True, kw_only=True)
class Content:
    """`groups` is a mirror of the log; it is kept up to date as batches are written."""

    log_id: str | None = None
    owner: LogOwnerValue | None = None
    groups: CompactedLog = field(default_factory=CompactedLog)


def id_entry(log_id: str) -> Entry:
    """The record that names a new log."""
    return Entry(LOG_ID_KEY, encode_value(LogIdValue(log_id=log_id)))


def owner_entry(owner: LogOwnerValue) -> Entry:
    """The record that says who has the log."""
    return Entry(LOG_OWNER_KEY, encode_value(owner))


def renewal_entry(owner: LogOwnerValue) -> Entry:
    """The record of an owner who has nothing to write. It is not the one that names the log: in a
    topic that was made anew meanwhile, that would give the name to a log without its groups."""
    return Entry(LOG_RENEWAL_KEY, encode_value(LogRenewalValue(owner_id=owner.owner_id)))


def newest(entries: Iterable[Entry]) -> Iterable[tuple[bytes, bytes]]:
    """Of each key the last value, in the order of writing: what was overwritten, most of a log, is
    not to be decoded."""
    live: dict[bytes, bytes] = {}
    for key, value in entries:
        live.pop(key, None)
        if value is not None:
            live[key] = value
    return live.items()


def content_of(entries: Iterable[Entry]) -> Content:
    """Raises StateLogUnusable for a log that this groupferry cannot read."""
    content = Content()
    for key, value in newest(entries):
        try:
            _put(content, key, value)
        except WireError as error:
            raise StateLogUnusable(
                f"the state log has a record that this groupferry cannot read ({error}):"
                " it is damaged, or was written by a newer groupferry"
            ) from None
    return content


def _put(content: Content, key_bytes: bytes, value_bytes: bytes) -> None:
    record_type, key = decode_key(key_bytes)
    if not isinstance(key, LogKey):
        group_id, record = decode_record(Entry(key_bytes, value_bytes))
        content.groups.put(group_id, (record,))
        return
    match decode_value(record_type, value_bytes):
        case LogIdValue(log_id=log_id):
            content.log_id = log_id
        case LogOwnerValue() as owner:
            content.owner = owner
        case LogRenewalValue():
            pass
        case value:
            raise WireError(f"{type(value).__name__} says nothing of a log")
