"""Every limit in the code is a total, with a share for each owner, or bounds one thing."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from itertools import count
from pathlib import Path

import pytest

from gateway.admin import app, guard, server
from gateway.cluster.cluster import TOPICS_MAX, Cluster
from gateway.data_path.config import Limits
from gateway.data_path.connection_limiter import ConnectionLimiter
from gateway.data_path.errors import TooManyConnections, TooMuchHeld
from gateway.data_path.grants import OF_ALL_CLIENTS_MAX
from gateway.data_path.held_answers import HeldAnswers
from gateway.data_path.held_requests import HeldRequests
from gateway.groups.group_limits import GroupQuota, TooManyGroups
from gateway.journal.history_shares import HistoryShares
from gateway.limits import TOTALS, Share, Total
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal
from gateway.requests.config_apis import CONFIGS_ALONE_MAX
from gateway.settings import Settings

TOP = Path(__file__).parents[2]
NO_GATEWAY = frozenset({"commands", "demo", "doc_pages", "pipeline"})
"""Packages of `gateway` that run in processes of their own, which have no clients."""
LIMIT = re.compile("(^|_)(max|limit|most)(_|$)", re.IGNORECASE)

OF_ONE_THING: Mapping[str, str] = {
    "gateway.admin.app": "EVENTS_TOGETHER_MAX",
    "gateway.admin.server": "HEADERS_BYTES_MAX STREAMS_MAX",
    "gateway.batches": "NAMES_TOGETHER_MAX",
    "gateway.board.board": "GROUPS_MAX EVENTS_MAX CLIENT_MEMBERS_MAX",
    "gateway.board.group_readiness": "LINES_MAX",
    "gateway.board.lag_watch": "PARTITIONS_AT_ONCE_MAX",
    "gateway.board.lags": "HISTORY_MAX ENDS_MAX",
    "gateway.board.reading": "MEMBERS_MAX PARTITIONS_MAX",
    "gateway.events.sentences": "NAMES_MAX NAMED_MAX MOVES_MAX",
    "gateway.journal.stated_groups": "FORWARDED_MAX",
    "gateway.board.words": "NAMED_MAX CHARS_MAX",
    "gateway.fleet.table": "SLOTS_MAX ENCODED_BYTES_MAX DECODED_BYTES_MAX",
    "gateway.fleet.words": "WORD_BYTES_MAX",
    "gateway.requests.owner_calls": "LINE_BYTES_MAX",
    "gateway.groups.cluster_view": "ASKED_TOGETHER_MAX REMEMBERED_MAX",
    "gateway.board.steps": "SAMPLES_MAX CLIENTS_MAX LINE_CHARS_MAX",
    "gateway.board.group_stats": "CLIENTS_MAX GROUP_CHARS_MAX LINE_CHARS_MAX",
    "gateway.board.terminal": "ALIGNED_WIDTH_MAX MOMENTS_MAX SPARKS_MAX LINES_PER_TEXT_MAX"
    " LINES_PER_CELL_MAX",
    "gateway.check.brokers": "BROKERS_AT_ONCE_MAX",
    "gateway.check.own_topic": "CLOCKS_DIFFER_MS_MAX",
    "gateway.cluster.bearer_tokens": "ANSWER_BYTES_MAX",
    "gateway.cluster.broker_configs": "BROKERS_ASKED_MAX",
    "gateway.cluster.broker_connection": "ANSWER_BYTES_MAX DECODED_AT_ONCE_BYTES_MAX",
    "gateway.cluster.cluster": "COORDINATORS_ONE_BY_ONE_MAX COORDINATORS_TOGETHER_MAX",
    "gateway.cluster.connection_limits": "BROKERS_ASKED_MAX",
    "gateway.cluster.sasl": "ITERATIONS_MAX",
    "gateway.control.handlers": "REASONS_TOLD_MAX",
    "gateway.control.messages": "GROUP_ID_BYTES_MAX COMMAND_BYTES_MAX REASONS_MAX REASON_CHARS_MAX"
    " ANSWER_BYTES_MAX",
    "gateway.data_path.accepting": "ACCEPTED_TOGETHER_MAX UNSENT_BYTES_MAX",
    "gateway.data_path.authentication": "TOKEN_BYTES_MAX",
    "gateway.data_path.broker_names": "HOST_LENGTH_MAX",
    "gateway.data_path.claims": "CLAIM_BYTES_MAX",
    "gateway.data_path.client_frames": "REMEMBERED_BYTES_MAX",
    # `max_connections_per_...` are shares; the others bound a request, an answer or a connection.
    "gateway.data_path.config": "max_connections max_connections_per_address"
    " max_connections_per_principal max_request_bytes max_held_request_bytes max_request_entries"
    " max_held_answer_bytes max_pipelined",
    "gateway.data_path.conversions": "COORDINATOR_KEYS_MAX",
    "gateway.data_path.fetch_held": "FETCHED_BYTES_MAX MAX_BYTES_SINCE",
    "gateway.data_path.grants": "OF_ONE_CLIENT_MAX",
    "gateway.data_path.group_requests": "COMMITS_TOGETHER_MAX",
    "gateway.data_path.ports": "PORT_MAX",
    "gateway.data_path.connected_clients": "CLOSED_MAX",
    "gateway.data_path.produce_acks": "TAGS_MAX _UINT32_MAX _VARINT_BYTES_MAX",
    "gateway.data_path.request_heads": "_NAME_BYTES_MAX",
    "gateway.data_path.relayed_requests": "SEARCHED_BYTES_MAX",
    "gateway.data_path.upstream": "ASKED_TOGETHER_MAX",
    "gateway.data_path.upstream_connection": "_CORRELATION_ID_MAX",
    "gateway.events.event": "_MOMENT_MAX",
    "gateway.readable": "_MOMENT_MS_MAX",
    "gateway.events.group_tracker": "DELETED_IDS_MAX",
    "gateway.events.move_costs": "AWAY_MAX WINDOWS_MAX",
    "gateway.events.record_translator": "NAMED_TOPICS_MAX",
    "gateway.groups.cluster_group_reader": "GROUPS_PER_LOOKUP_MAX",
    "gateway.groups.configured_releases": "RELEASES_MAX",
    "gateway.groups.forgetting": "NEW_GROUPS_MAX UNUSED_MS_MAX",
    "gateway.groups.members_away": "AWAY_MAX_MS DEPARTURES_MAX",
    "gateway.groups.readiness": "BLOCKERS_NAMED_MAX",
    "gateway.groups.regex_resolver": "MATCHED_TOPICS_MAX",
    "gateway.groups.topics_image": "NAMES_MAX",
    "gateway.hosting.adoption": "HOLD_MAX_MS HEARTBEATS_AT_ONCE_MAX UNDONE_FOR_MS_MAX",
    "gateway.hosting.batch": "BATCH_MAX",
    "gateway.hosting.forwarded": "MEMBERS_MAX BYTES_PER_GROUP_MAX",
    "gateway.hosting.logged_engine": "LOAD_RETRY_MS_MAX BEFORE_A_DEADLINE_MAX STATED_OF_GONE_MAX",
    "gateway.hosting.lookup_outcome": "NAMED_OCCUPANTS_MAX",
    "gateway.hosting.pending_ids": "IDS_MAX",
    "gateway.hosting.release": ("SETTLE_MAX_MS GATHER_MAX_MS NATIVE_FIRST_MAX_MS"),
    "gateway.hosting.shown_partitions": "ASSIGNMENT_BYTES_MAX",
    "gateway.hosting.upstream_member": "JOIN_REPEATS_MAX",
    "gateway.journal.journal": "REPEATABLE_BYTES_MAX",
    "gateway.journal.line_files": "FILE_BYTES_MAX FILE_AGE_MAX_S FOLDER_AGE_MAX_S",
    "gateway.journal.written_events": "DELIVERY_MS_MAX END_BYTES_MAX WRITE_MS_MAX",
    "gateway.open_files": "CONNECTIONS_MAX",  # the default of `max_connections`
    "gateway.fleet.member": "BROKER_ID_MAX",
    "gateway.fleet.supervision": "SILENT_TICKS_MAX DELAY_TICKS_MAX",
    "gateway.observers.offset_reporter": "GROUPS_PER_TRANSACTION_MAX",
    "gateway.plug_ins.runner": "TIME_LIMIT_S ANSWER_BYTES_MAX",
    "gateway.plug_ins.worker": "ORPHAN_LIMIT_S MEMORY_BYTES_MAX",
    "gateway.repeated_lines": "CONDITIONS_PER_KIND_MAX EVENT_LINES_MAX INFO_LINES_MAX"
    " VALUE_CHARS_MAX",
    "gateway.requests.answer_budget": "ANSWER_BYTES_MAX",
    "gateway.requests.authorization": "TOPICS_TOGETHER_MAX",
    "gateway.requests.commits": "ANSWER_REMEMBERED_BYTES_MAX",
    "gateway.groups.groups_elsewhere": "CONNECTIONS_MAX",
    "gateway.requests.messages": "HOSTS_MAX",
    "gateway.requests.offset_fetch": "GROUPS_ONE_BY_ONE_MAX",
    # Shares of the totals, and bounds of a group, a member, a session or a list.
    "gateway.settings": "max_connections_per_address max_connections_per_principal"
    " max_groups_per_address max_groups_per_principal max_names_per_address"
    " max_names_per_principal metrics_groups_max group_max_session_timeout_ms group_max_size"
    " group_consumer_max_session_timeout_ms group_consumer_max_heartbeat_interval_ms"
    " group_consumer_max_size group_consumer_max_assignment_interval_ms"
    " group_conversion_rest_max_ms",
    "gateway.state_log.kafka.kafka_log": "TRANSACTION_WRITES_MAX TRANSACTION_BYTES_MAX",
    "gateway.state_log.kafka.lease": "LEASE_MS_MAX",
    "gateway.state_log.kafka.transactions": "RECORD_BYTES_MAX BATCH_BYTES_MAX",
    "gateway.state_log.sqlite_writer": "FREE_PAGES_MAX FREE_SHARE_MAX PAGES_PER_WRITE_MAX"
    " WAL_BYTES_MAX",
    "gateway.transport.sockets": "RECEIVED_BYTES_MAX",
    "gateway.transport.tls": "RECORD_BYTES_MAX PIECE_BYTES_MAX UNSENT_BYTES_MAX SPARSE_BYTES_MAX"
    " SPARSE_RATIO_MAX",
    "kafka_codecs.consumer_protocol": "REMEMBERED_BYTES_MAX",
    "kafka_codecs.fetch": "_INT32_MAX _INT64_MAX",
    "kafka_codecs.share_fetch": "_INT32_MAX",
    "kafka_codecs.primitives": "UVARINT_MAX STRING_SIZE_MAX UTF_8_SIZE_MAX",
}
"""The limits of a request, an answer, a connection, a group, a line, a look or a wait, by module.
The engine in `coordinator` is that of one group, and so are its limits."""


def _constants(path: Path) -> Iterator[str]:
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            for name in ast.walk(statement):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield name.id


def _limits() -> Iterator[tuple[str, str]]:
    """The module and the name of each."""
    for root, package in ((TOP, "gateway"), (TOP / "codecs", "kafka_codecs")):
        for path in (root / package).rglob("*.py"):
            module = path.relative_to(root).with_suffix("").parts
            if module[1] not in NO_GATEWAY:
                for name in filter(LIMIT.search, _constants(path)):
                    yield ".".join(module), name
    for name in filter(LIMIT.search, Settings.model_fields):
        yield "gateway.settings", name
    for field in fields(Limits):
        if LIMIT.search(field.name):
            yield "gateway.data_path.config", field.name


def test_every_limit_is_a_total_or_bounds_one_thing() -> None:
    """A new one goes into `gateway/limits.py` if all clients share it, and then needs a share."""
    totals = {(total.module, total.name) for total in TOTALS}
    of_one_thing = {
        (module, name) for module, names in OF_ONE_THING.items() for name in names.split()
    }
    assert totals.isdisjoint(of_one_thing)
    assert set(_limits()) == totals | of_one_thing


def _limiter() -> Callable[[QuotaKey], object]:
    limiter = ConnectionLimiter(Limits(max_connections=100))
    return lambda owner: limiter.take(owner.name, has_handshake=False)


def _held_requests() -> Callable[[QuotaKey], object]:
    held = HeldRequests(Limits(max_held_requests_bytes=100))
    return lambda owner: held.take(owner, 1)


def _groups() -> Callable[[QuotaKey], object]:
    quota, names = GroupQuota("hosted", groups_max=100), count()
    return lambda owner: quota.reserve(f"g-{next(names)}", owner)


class _Full(Exception):
    """A total has no room."""


def _shared_total(total: SharedTotal) -> Callable[[QuotaKey], object]:
    def take(owner: QuotaKey) -> None:
        if not total.has_room(owner):
            raise _Full
        total.take(owner)

    return take


TAKERS: Mapping[str, Callable[[], Callable[[QuotaKey], object]]] = {
    "max_connections": _limiter,
    "max_held_requests_bytes": _held_requests,
    "TOTAL_BYTES_MAX": lambda: _shared_total(HeldAnswers(100)._total),
    "max_groups": _groups,
    "TOPICS_MAX": lambda: _shared_total(Cluster(())._followed),
    "CONFIGS_ALONE_MAX": lambda: _shared_total(SharedTotal(CONFIGS_ALONE_MAX)),
    "OF_ALL_CLIENTS_MAX": lambda: _shared_total(SharedTotal(OF_ALL_CLIENTS_MAX)),
    "CONNECTIONS_MAX": lambda: _shared_total(SharedTotal(server.CONNECTIONS_MAX)),
    "REQUESTS_MAX": lambda: _shared_total(SharedTotal(guard.REQUESTS_MAX)),
    "PROBES_MAX": lambda: _shared_total(SharedTotal(guard.PROBES_MAX)),
    "RECORD_BYTES_MAX": lambda: _shared_total(HistoryShares(100, lambda: 0)._total),
    "OTHER_BYTES_MAX": lambda: _shared_total(HistoryShares(100, lambda: 0)._total),
    "SUBSCRIBERS_MAX": lambda: _shared_total(SharedTotal(app.SUBSCRIBERS_MAX)),
}
"""What takes one of each total that refuses."""


@contextmanager
def expect_refusal() -> Iterator[None]:
    """The block must end with a refusal."""
    with pytest.raises((TooManyConnections, TooMuchHeld, TooManyGroups, _Full)):
        yield


@pytest.mark.parametrize(
    "total", [total for total in TOTALS if total.share is Share.REST], ids=lambda total: total.name
)
def test_one_owner_leaves_room_for_three_others(total: Total) -> None:
    """Whatever it does. The next ones may be as greedy."""
    take = TAKERS[total.name]()
    for number in range(4):
        owner = QuotaKey(f"10.0.0.{number}")
        take(owner)
        with expect_refusal():
            for _ in range(OF_ALL_CLIENTS_MAX):
                take(owner)


def test_topics_of_one_group_fit_into_the_share_of_one_owner() -> None:
    """A pattern may match as many."""
    from gateway.groups.regex_resolver import MATCHED_TOPICS_MAX

    assert SharedTotal(TOPICS_MAX).has_room(QuotaKey("10.0.0.1"), MATCHED_TOPICS_MAX)
