"""The totals of the gateway: what all clients together may take of it. Each owner, a user or an
address, has a share, so that none takes what others need.

A bound of one thing, such as a request, a connection or a group, is no total: it is stated where it
is checked. A test finds every limit in the code that is neither.
"""

from dataclasses import dataclass
from enum import Enum


class Share(Enum):
    """How much of a total one owner may have."""

    REST = "half of what others leave"
    """The rule of `gateway.quotas.shares`. Beyond it, the owner alone is refused."""
    TABLE = "half; beyond it, its own oldest goes"
    """The rule of `gateway.quotas.quota_cache`. Only a full table forgets the oldest entry of
    all."""
    ADDRESS = "counted for each address"
    """No total in itself."""
    GROUPS = "that of its groups"
    """What is counted belongs to groups, and each owner has a share of the groups."""
    TURNS = "its turn"
    """First come, first served; each gives its place back soon."""
    SPEED = "none: it saves time only"
    """Without a place, work takes longer and has the same result."""
    CLUSTER = "none: clients add nothing to it"
    MACHINE = "none: only the gateway's own user reaches it"


@dataclass(frozen=True, slots=True)
class Total:
    """A limit for all clients together."""

    module: str
    """Where it is defined, and enforced unless it is a setting."""
    name: str
    """The constant, or the setting."""
    counts: str
    share: Share
    beyond: str
    """What happens to an owner that wants more."""


TOTALS = (
    Total(
        "gateway.settings",
        "max_connections",
        "client connections",
        Share.REST,
        "the connection closes, with `connection_refused`",
    ),
    Total(
        "gateway.data_path.config",
        "max_handshakes_per_address",
        "handshakes of one client address",
        Share.ADDRESS,
        "the connection closes, with `connection_refused`",
    ),
    Total(
        "gateway.data_path.config",
        "max_held_requests_bytes",
        "bytes of requests from 64 KiB on until they are answered, and of long answers about"
        " groups, four times their length",
        Share.REST,
        "the connection closes, with `connection_refused`; of an answer, the rest is refused",
    ),
    Total(
        "gateway.data_path.held_answers",
        "TOTAL_BYTES_MAX",
        "bytes of brokers' answers from 64 KiB on that are held to be read or rewritten",
        Share.REST,
        "the answer waits in its socket, for 30 s at most; then the connection closes, with"
        " `connection_refused`",
    ),
    Total(
        "gateway.settings",
        "max_groups",
        "hosted groups in memory",
        Share.REST,
        "joins are refused, with `groups_refused`; groups that get past no join end",
    ),
    Total(
        "gateway.cluster.cluster",
        "TOPICS_MAX",
        "topics that groups name, which are kept up to date",
        Share.REST,
        "COORDINATOR_NOT_AVAILABLE until groups need fewer",
    ),
    Total(
        "gateway.requests.config_apis",
        "CONFIGS_ALONE_MAX",
        "groups that do not exist but have configs",
        Share.REST,
        "changes are refused; unused configs go after a week",
    ),
    Total(
        "gateway.data_path.grants",
        "OF_ALL_CLIENTS_MAX",
        "permissions of all connections with credentials",
        Share.REST,
        "the connection's own oldest is asked for again",
    ),
    Total(
        "gateway.data_path.grants",
        "OF_THE_ANONYMOUS_MAX",
        "permissions of all clients without credentials",
        Share.TABLE,
        "asked for again",
    ),
    Total(
        "gateway.groups.group_drivers",
        "REMEMBERED_MAX",
        "how groups that are not in memory stand in the cluster",
        Share.TABLE,
        "asked for again",
    ),
    Total(
        "gateway.data_path.found_coordinators",
        "REMEMBERED_MAX",
        "answers about coordinators, for clients without credentials",
        Share.TABLE,
        "asked for again",
    ),
    Total(
        "gateway.requests.coordinators",
        "REMEMBERED_MAX",
        "coordinators of groups",
        Share.TABLE,
        "asked for again",
    ),
    Total(
        "gateway.hosting.forwarded",
        "GROUPS_MAX",
        "forwarded groups, as their requests show them",
        Share.TABLE,
        "unknown until described or joined again",
    ),
    Total(
        "gateway.hosting.forwarded",
        "BYTES_MAX",
        "bytes of these groups",
        Share.GROUPS,
        "the longest silent group is forgotten",
    ),
    Total(
        "gateway.cluster.cluster",
        "UNKNOWN_NAMES_MAX",
        "topic names that the cluster does not have",
        Share.TABLE,
        "asked for again",
    ),
    Total(
        "gateway.observers.clients_seen",
        "REMEMBERED_MAX",
        "clients reported in events",
        Share.TABLE,
        "reported again",
    ),
    Total(
        "gateway.groups.readiness_reporter",
        "REMEMBERED_MAX",
        "groups whose readiness is reported in events",
        Share.TABLE,
        "reported again",
    ),
    Total(
        "gateway.observers.offset_reporter",
        "TRANSACTIONS_MAX",
        "transactions under way with offsets of groups",
        Share.TABLE,
        "their ends are not reported",
    ),
    Total(
        "gateway.requests.defective_joins",
        "MEMBERS_MAX",
        "native members of defective versions",
        Share.TABLE,
        "the version is no longer known",
    ),
    Total(
        "gateway.data_path.removal",
        "REMEMBERED_MAX",
        "versions of clients, and clients told to leave",
        Share.TABLE,
        "told again",
    ),
    Total(
        "gateway.data_path.traffic",
        "CLIENTS_MAX",
        "traffic of clients whose connections have ended",
        Share.TABLE,
        "a step is not judged by it",
    ),
    Total(
        "gateway.data_path.connected_clients",
        "GONE_MAX",
        "members whose clients have gone",
        Share.TABLE,
        "their instance ids stay in use until their sessions end",
    ),
    Total(
        "gateway.groups.regex_resolver",
        "REPORTED_MAX",
        "regular expressions reported as too broad",
        Share.TABLE,
        "reported again",
    ),
    Total(
        "gateway.admin.server",
        "CONNECTIONS_MAX",
        "connections to the admin API",
        Share.REST,
        "the connection closes unless a silent one gives way",
    ),
    Total(
        "gateway.admin.guard",
        "REQUESTS_MAX",
        "requests to the admin API at a time",
        Share.REST,
        "503",
    ),
    Total("gateway.admin.guard", "PROBES_MAX", "probes beyond these", Share.REST, "503"),
    Total("gateway.admin.app", "SUBSCRIBERS_MAX", "streams of events at a time", Share.REST, "503"),
    Total(
        "gateway.repeated_lines",
        "CONDITIONS_MAX",
        "conditions in the log that are counted apart",
        Share.ADDRESS,
        "those of one kind are counted together; an address has at most 20 of each kind",
    ),
    Total(
        "gateway.repeated_lines",
        "CONDITIONS_OF_CLIENTS_MAX",
        "those of clients among them",
        Share.ADDRESS,
        "as for all conditions",
    ),
    Total(
        "gateway.groups.regex_permissions",
        "GROUPS_MAX",
        "groups whose patterns match topics",
        Share.GROUPS,
        "the cluster is asked again",
    ),
    Total(
        "gateway.groups.regex_permissions",
        "TOPICS_MAX",
        "topics that these patterns may match",
        Share.GROUPS,
        "the cluster is asked again",
    ),
    Total(
        "gateway.groups.regex_resolver",
        "RESOLUTIONS_AT_ONCE_MAX",
        "threads that match patterns",
        Share.TURNS,
        "others wait for their turn",
    ),
    Total(
        "gateway.observers.offset_reporter",
        "PARTITIONS_MAX",
        "offsets that wait for their event",
        Share.GROUPS,
        "events come early, and starts are reported again",
    ),
    Total(
        "gateway.board.group_stats",
        "GROUPS_MAX",
        "sums of groups",
        Share.GROUPS,
        "the group that has had no event for longest begins again at 0",
    ),
    Total(
        "gateway.board.group_stats",
        "CLIENTS_IN_ALL_MAX",
        "clients in these sums",
        Share.GROUPS,
        "the client seen first is forgotten",
    ),
    Total(
        "gateway.board.group_stats",
        "PARTITIONS_MAX",
        "partitions in these sums",
        Share.GROUPS,
        "as for groups",
    ),
    Total(
        "gateway.board.lags",
        "PARTITIONS_MAX",
        "committed offsets, for lags",
        Share.GROUPS,
        "the group without a commit for longest is forgotten",
    ),
    Total(
        "gateway.board.steps",
        "GROUPS_MAX",
        "groups whose clients may switch their protocol",
        Share.GROUPS,
        "the group without an event for longest is forgotten",
    ),
    Total(
        "gateway.board.steps",
        "ENTRIES_MAX",
        "entries of these groups",
        Share.GROUPS,
        "as for groups",
    ),
    Total(
        "gateway.board.steps",
        "OPEN_STEPS_MAX",
        "steps that wait for their judgement",
        Share.GROUPS,
        "further ones are not judged",
    ),
    Total(
        "gateway.board.steps",
        "FLAPS_UNTOLD_MAX",
        "clients whose flapping is not reported yet",
        Share.GROUPS,
        "the first is not reported",
    ),
    Total(
        "gateway.board.changes",
        "GONE_MAX",
        "groups that are gone, for watchers of all groups",
        Share.GROUPS,
        "the next list is complete",
    ),
    Total(
        "gateway.board.recent_events",
        "EVENTS_MAX",
        "the latest events",
        Share.GROUPS,
        "the oldest is forgotten",
    ),
    Total(
        "gateway.board.recent_events",
        "BYTES_MAX",
        "bytes of these events",
        Share.GROUPS,
        "the oldest is forgotten",
    ),
    Total(
        "gateway.journal.history_shares",
        "RECORD_BYTES_MAX",
        "bytes of events with a record that clients cause in 30 days",
        Share.REST,
        "the group's further ones go to files that make way first, with `events_overflow`",
    ),
    Total(
        "gateway.journal.history_shares",
        "OTHER_BYTES_MAX",
        "bytes of other events that clients cause in 30 days",
        Share.REST,
        "further ones are left out, with `events_left_out`",
    ),
    Total(
        "gateway.journal.history_shares",
        "OWNERS_MAX",
        "owners whose part of the history is counted",
        Share.ADDRESS,
        "further ones are counted together",
    ),
    Total(
        "gateway.journal.events_topic",
        "BUFFER_LINES_MAX",
        "lines that wait for the events topic",
        Share.GROUPS,
        "lines are lost, and counted",
    ),
    Total(
        "gateway.journal.events_topic",
        "BUFFER_KIB_MAX",
        "KiB of these lines",
        Share.GROUPS,
        "lines are lost, and counted",
    ),
    Total(
        "gateway.journal.line_files",
        "FOLDER_BYTES_MAX",
        "bytes of event files",
        Share.GROUPS,
        "the oldest file is deleted",
    ),
    Total(
        "gateway.hosting.adoption",
        "AT_ONCE_MAX",
        "groups that the gateway adopts by itself at a time",
        Share.TURNS,
        "others wait for their turn",
    ),
    Total(
        "gateway.cluster.coordinator_connections",
        "JOINS_AT_ONCE_MAX",
        "joins of anchors at one coordinator",
        Share.TURNS,
        "others wait for their turn",
    ),
    Total(
        "gateway.plug_ins.runner",
        "PROCESSES_MAX",
        "processes of plug-ins",
        Share.TURNS,
        "others wait for their turn",
    ),
    Total(
        "gateway.requests.owner_calls",
        "CALLS_MAX",
        "admin requests that a process of a fleet answers for another one",
        Share.TURNS,
        "others wait for their turn",
    ),
    Total(
        "gateway.data_path.brokers",
        "OPENING_MAX",
        "connections to one broker that are being opened",
        Share.TURNS,
        "others wait for their turn",
    ),
    Total(
        "gateway.state_log.sqlite",
        "BATCHES_MAX",
        "batches in one transaction",
        Share.TURNS,
        "others wait for the next one",
    ),
    Total(
        "gateway.data_path.connection_tasks",
        "KEPT_MAX",
        "connections that keep their tasks",
        Share.SPEED,
        "tasks begin again with the next request",
    ),
    Total(
        "gateway.data_path.splice",
        "PIPES_MAX",
        "pipes for long frames",
        Share.SPEED,
        "frames are copied",
    ),
    Total(
        "gateway.data_path.client_frames",
        "HEARTBEATS_MAX",
        "decoded heartbeats",
        Share.SPEED,
        "decoded again",
    ),
    Total(
        "gateway.data_path.introductions",
        "REQUESTS_MAX",
        "decoded first requests of clients",
        Share.SPEED,
        "decoded again",
    ),
    Total(
        "gateway.requests.commits",
        "BEGINNINGS_MAX",
        "decoded beginnings of commits",
        Share.SPEED,
        "decoded again",
    ),
    Total(
        "gateway.requests.commits",
        "ANSWERS_MAX",
        "decoded answers to commits",
        Share.SPEED,
        "decoded again",
    ),
    Total(
        "kafka_codecs.consumer_protocol",
        "REMEMBERED_MAX",
        "decoded subscriptions",
        Share.SPEED,
        "decoded again",
    ),
    Total(
        "gateway.data_path.offer",
        "OFFERS_MAX",
        "sets of api versions, one for each kind of broker",
        Share.SPEED,
        "made again",
    ),
    Total(
        "gateway.data_path.config",
        "max_brokers",
        "listeners for brokers",
        Share.CLUSTER,
        "the broker has no listener, with `broker_listener_failed`",
    ),
    Total(
        "gateway.control.control_socket",
        "WAITING_MAX",
        "connections that wait there",
        Share.MACHINE,
        "refused",
    ),
)
