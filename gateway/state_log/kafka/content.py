"""Decodes a log: the live records of each group, and the log's id and owner."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gateway.fleet.member import shard_of
from gateway.state_log.compacted import CompactedLog
from gateway.state_log.log import StateLogUnusable
from gateway.state_log.record_format import Entry, StoredEntry
from kafka_codecs.errors import WireError
from kafka_codecs.state_records import (
    LogIdValue,
    LogKey,
    LogOwnerValue,
    LogRenewalValue,
    LogShardValue,
    RecordType,
    Value,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    is_of_later_groupferry,
)

LOG_ID_KEY = encode_key(RecordType.LOG_ID, LogKey())
LOG_OWNER_KEY = encode_key(RecordType.LOG_OWNER, LogKey())
LOG_SHARD_KEY = encode_key(RecordType.LOG_SHARD, LogKey())
LOG_RENEWAL_KEY = encode_key(RecordType.LOG_RENEWAL, LogKey())

FIRST_SHARD = 0
"""The gateway that has claimed it last has the log."""
NO_RUN = -1
RUNS_PER_CLAIM = 1_000_000
"""The runs that one claim reserves: more than the processes that a fleet starts, and the shards
that it moves, before the next claim. The offset of a claim grows, so every run of a fleet is
greater than those of the fleets before."""


@dataclass(slots=True, kw_only=True)
class Content:
    """`groups` mirrors the log, and is updated as batches are written."""

    log_id: str | None = None
    cluster_id: str | None = None
    """The cluster whose groups it has, once it has met one with an id."""
    shard: LogShardValue | None = None
    """The part of the groups that the log has; None if it has all."""
    owner: LogOwnerValue | None = None
    """The one that has claimed it last, unless another gateway has followed that one."""
    owner_offset: int = -1
    """The offset of the record that names the owner."""
    groups: CompactedLog = field(default_factory=lambda: CompactedLog(_place_of))
    ignored: dict[int, str] = field(default_factory=dict)
    """The offsets of records that this version does not know, with the reason."""


def _place_of(offset: int) -> str:
    return f"the record at offset {offset} of the state log"


def id_entry(log_id: str, cluster_id: str | None) -> Entry:
    """The record that gives a log its id and its cluster."""
    return Entry(LOG_ID_KEY, encode_value(LogIdValue(log_id=log_id, cluster_id=cluster_id)))


def shard_entry(shard: LogShardValue) -> Entry:
    """The record that says which part of the groups a log has. An older groupferry, which would
    take it for all, does not start on it."""
    return Entry(LOG_SHARD_KEY, encode_value(shard))


def owner_entry(owner: LogOwnerValue) -> Entry:
    """The record that names the owner of the log."""
    return Entry(LOG_OWNER_KEY, encode_value(owner))


def renewal_entry(owner: LogOwnerValue) -> Entry:
    """The record of an owner that has nothing to write. It does not carry the log's id: in a topic
    that was recreated meanwhile, that would give the id to a log without its groups."""
    return Entry(LOG_RENEWAL_KEY, encode_value(LogRenewalValue(owner_id=owner.owner_id)))


def newest(entries: Iterable[StoredEntry]) -> Iterable[StoredEntry]:
    """The last record of each key that has a value, in the order of writing. Overwritten records,
    which are most of a log, need not be decoded. A claim of a gateway that another one has followed
    overwrites none: it came too late."""
    live: dict[bytes, StoredEntry] = {}
    for entry in entries:
        before = live.pop(entry.key, None)
        if before is not None and entry.key == LOG_OWNER_KEY and _comes_too_late(entry, before):
            live[entry.key] = before
        elif entry.value is not None:
            live[entry.key] = entry
    return live.values()


def is_of_earlier_claim(owner: LogOwnerValue, other: LogOwnerValue) -> bool:
    """Whether the owner belongs to a gateway that has claimed a log in shards before the other one,
    as far as both are known to."""
    if NO_RUN in (owner.run_id, other.run_id):
        return False
    return owner.run_id // RUNS_PER_CLAIM < other.run_id // RUNS_PER_CLAIM


def _comes_too_late(claim: StoredEntry, before: StoredEntry) -> bool:
    try:
        owners = [
            decode_value(RecordType.LOG_OWNER, entry.value or b"") for entry in (claim, before)
        ]
    except WireError:
        return False
    owner, other = owners
    assert isinstance(owner, LogOwnerValue)
    assert isinstance(other, LogOwnerValue)
    return is_of_earlier_claim(owner, other)


def content_of(entries: Iterable[StoredEntry]) -> Content:
    """Decode what is about the log itself. A record with an unknown key is ignored. Raises
    StateLogUnusable if a record about the log is unreadable, or if a later groupferry wrote the
    log."""
    content = Content()
    for entry in newest(entries):
        offset, key_bytes, value = entry
        assert value is not None
        try:
            record_type, key = decode_key(key_bytes)
        except WireError as error:
            if is_of_later_groupferry(key_bytes):
                raise StateLogUnusable(
                    f"{_place_of(offset)} was written by a newer groupferry: start the newer one"
                    " again"
                ) from None
            content.ignored[offset] = str(error)
            continue
        if not isinstance(key, LogKey):
            content.groups.put_stored(key.group_id, entry)
            continue
        try:
            _take(content, decode_value(record_type, value), offset)
        except WireError as error:
            raise StateLogUnusable(
                f"{_place_of(offset)} cannot be read, start the version that wrote it: {error}"
            ) from None
    return content


def check_cluster(stored: str | None, cluster_id: str | None, *, topic: str) -> None:
    """Raises StateLogUnusable if the log in this cluster is a copy of another cluster's: `stored`
    is the id in the log, and `cluster_id` that of the cluster, None if it has none."""
    if stored not in (None, cluster_id):
        this = "a cluster without an id" if cluster_id is None else f"cluster {cluster_id}"
        raise StateLogUnusable(
            f"topic {topic} is the state log of cluster {stored}, and this is {this}: correct"
            " --upstream, or name another topic with --state-topic"
        )


def check_part(content: Content, mark: LogShardValue | None, *, topic: str) -> None:
    """Raises StateLogUnusable if the log has another part of the groups than wanted: `mark` is what
    it says of itself, None for a log with all groups. The first part may have all of them still."""
    if mark is None and content.shard is not None:
        raise StateLogUnusable(
            f"topic {topic} is the state of several processes: start again, and if this comes"
            " again, it has lost partitions: name another topic with --state-topic"
        )
    if mark is None or content.shard == mark:
        return
    may_get_it = content.log_id is None or mark.shard == FIRST_SHARD
    if content.shard is not None or not may_get_it:
        raise StateLogUnusable(
            f"topic {topic} has the state of another number of shards, or partitions of several"
            " states: name another topic with --state-topic"
        )


def divide_by_shard(entries: Iterable[StoredEntry], shards: int) -> Mapping[int, Sequence[Entry]]:
    """The records of groups, by the shard that each belongs to. Records that this version does not
    know stay where they are."""
    parts = defaultdict[int, list[Entry]](list)
    for entry in newest(entries):
        with suppress(WireError):
            _, key = decode_key(entry.key)
            if not isinstance(key, LogKey):
                parts[shard_of(key.group_id, shards)].append(Entry(entry.key, entry.value))
    return parts


def _take(content: Content, value: Value, offset: int) -> None:
    match value:
        case LogIdValue(log_id=log_id, cluster_id=cluster_id):
            content.log_id, content.cluster_id = log_id, cluster_id
        case LogOwnerValue() as owner:
            content.owner, content.owner_offset = owner, offset
        case LogShardValue() as shard:
            content.shard = shard
        case LogRenewalValue():
            pass
        case _:
            raise WireError(f"{type(value).__name__} is not a record about a log")
