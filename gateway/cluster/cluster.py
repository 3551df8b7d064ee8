"""The upstream cluster as the gateway sees it: its brokers, and all topics that were asked for.

Keeps its knowledge up to date by requests on the gateway's own connections.
"""

import contextlib
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import structlog
import trio

from gateway.batches import batches
from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address, BrokerConnection, Versions
from gateway.cluster.broker_connections import TRY_AGAIN_S, BrokerConnections
from gateway.cluster.embedded import is_embedded
from gateway.cluster.errors import UpstreamClosed, UpstreamError, UpstreamRefused
from gateway.cluster.metadata_memory import without_leaders
from gateway.cluster.topic_names import TopicNames
from gateway.cluster.topics import (
    METADATA_BY_TOPIC_ID_SINCE,
    ClusterTopic,
    can_be_topic,
    names_in,
    topics_in,
    with_topic_ids,
)
from gateway.events.event import EventSink
from gateway.events.gateway_events import UpstreamBack, UpstreamLost
from gateway.logs import write_to_log
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import SharedTotal, ShareRule
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import name_of
from kafka_codecs.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.metadata import (
    NO_TOPIC_ID,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

log = structlog.get_logger()

POLL_INTERVAL_S = 5.0
"""How often to refresh brokers and topics, and so the delay until a new partition is noticed."""
PROMPT_ANSWER_TIMEOUT_S = 5.0
"""The limit for requests that any broker can answer; then the next broker is asked. A broker that
hangs still accepts connections."""
BOOTSTRAP_TIMEOUT_S = 10.0
"""The limit for connecting to a bootstrap address and getting the list of brokers."""
FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 10.0
TOPICS_MAX = 20_000
"""The limit of topics that are kept up to date, with a share for each owner. At the limit, topics
that are no longer needed are dropped; requests for more are refused."""
GIVE_UP_INTERVAL_S = 10.0
"""The minimum interval between two searches for such topics. A search costs in proportion to all
topics that groups name."""
UNKNOWN_NAMES_MAX = 1_000
"""The limit of names without a topic that are polled in case the topic appears. Beyond it, the
oldest name is dropped."""

COORDINATORS_ONE_BY_ONE_MAX = 1_000
"""The limit of coordinator look-ups at an old broker, which takes one group per request."""
COORDINATORS_TOGETHER_MAX = 32
"""The limit of such requests in flight at one broker."""

_FIRST_BATCHED_COORDINATORS = 4
_UNKNOWN_TOPIC = 3


class Cluster:
    """One Kafka cluster. `run` keeps it up to date; call other methods once it has started."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        *,
        access: Access = PLAIN_ACCESS,
        poll_interval_s: float = POLL_INTERVAL_S,
        emit: EventSink = write_to_log,
        names: ShareRule | None = None,
        only_id: str | None = None,
    ) -> None:
        """`names`: how many names of one client are followed. `only_id`: the id of the cluster, if
        it has one; a broker of another cluster counts as one that does not answer."""
        self._bootstrap = tuple(bootstrap)
        self.access = access
        """The gateway's own access to the brokers."""
        self._poll_interval_s = poll_interval_s
        self._emit = emit
        self._only_id = only_id
        self._connections = BrokerConnections(access, self._address_of)
        self._refreshing = trio.Lock()
        self._topics: dict[str, ClusterTopic] = {}
        self._named_by: dict[str, QuotaKey | None] = {}  # whose request named a topic first
        self._followed = SharedTotal(TOPICS_MAX)
        self._name_of: dict[UUID, str] = {}
        self._next_give_up_s = -math.inf
        self.needed_topics: Callable[[], Iterable[str]] = lambda: self._topics
        """Names the topics that must be kept. By default, all of them."""
        # Requested names without a topic.
        self._unknown: QuotaCache[str, None] = QuotaCache(UNKNOWN_NAMES_MAX, names or ShareRule())
        self._unseen: dict[str, QuotaKey | None] = {}  # those that the next request will ask for
        self.names = TopicNames(self.ask_names, interval_s=poll_interval_s)
        """The names of all topics."""
        self.brokers: Mapping[int, Address] = {}
        """The live brokers by node id."""
        self.addresses: dict[int, Address] = {}
        """The last address of each broker, including brokers that are gone."""
        self.cluster_id: str | None = None
        self.versions: Versions = {}
        """The API versions of the bootstrap address that answered last."""
        self.answered: Address | None = None
        """The bootstrap address that answered last."""
        self._latest = MetadataResponse()
        self._unanswered_s: float | None = None
        self.changed = trio.Event()
        """Set when brokers or topics change, and then replaced by a new event."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Find the cluster, report that it was found, then watch it until cancelled.

        Raises UpstreamError if no bootstrap address answers, UpstreamRefused if the cluster
        requires something that the gateway does not support. Later failures are logged and retried.
        Closes every connection at the end.
        """
        try:
            await self.refresh()
            task_status.started()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.names.run)
                await self._watch()
        finally:
            self._connections.close()

    async def refresh(self) -> None:
        """Refresh brokers and topics now. Raises UpstreamError."""
        async with self._refreshing:
            await self._refresh()

    async def _refresh(self) -> None:
        names = (*self._topics, *self._unknown)
        self._learn(await self._metadata_of(names), names)

    async def _metadata_of(self, names: Sequence[str]) -> MetadataResponse:
        request = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in names),
            allow_auto_topic_creation=False,
        )
        try:
            answer = await self._ask_any(request, PROMPT_ANSWER_TIMEOUT_S)
        except UpstreamError:
            try:
                answer = await self._ask_bootstrap(request)
            except UpstreamError:
                self._unanswered_s = trio.current_time()
                raise
        self._unanswered_s = None
        return answer

    async def recall(self, request: MetadataRequest, version: int) -> MetadataResponse | None:
        """The remembered answer to a Metadata request of this version while no broker answers. None
        if a broker does, or if the request needs more than is remembered. Topic ids are the
        cluster's, or derived."""
        if not self._is_away(TRY_AGAIN_S):
            with contextlib.suppress(UpstreamError), trio.move_on_after(TRY_AGAIN_S):
                await self.refresh()
        return without_leaders(self._latest, request, version) if self.is_away else None

    @property
    def lasting_id(self) -> str | None:
        """The id that tells this cluster from all others; None if it has none, as before Kafka
        0.10.1. The embedded cluster has another one at each start."""
        return None if is_embedded(self.versions) else self.cluster_id

    @property
    def is_away(self) -> bool:
        """Whether no broker answered the latest request that any of them can answer."""
        return self._unanswered_s is not None

    def _is_away(self, asked_within_s: float) -> bool:
        """Whether no broker answered the last request, which was not long ago."""
        asked_s = self._unanswered_s
        return asked_s is not None and trio.current_time() - asked_s < asked_within_s

    async def topics_for(
        self, names: Iterable[str], owner: QuotaKey | None = None
    ) -> Mapping[str, ClusterTopic]:
        """The named topics that exist. They are kept up to date from now on, as are up to
        UNKNOWN_NAMES_MAX names without a topic. `owner`: whose request has the names.

        Asks the cluster only about new names, and never makes it create a topic. Raises
        UpstreamError if the cluster does not answer, or if the owner needs more topics than its
        share of TOPICS_MAX.
        """
        names = tuple(
            dict.fromkeys(filter(can_be_topic, names))
        )  # clients may send arbitrary names
        if missing := self._names_to_follow(names):
            self._unseen |= dict.fromkeys(missing, owner)
            async with self._refreshing:
                if missing := self._names_to_follow(names):
                    # When a gateway starts, all its groups ask at once: one answer serves them all.
                    others = {name: by for name, by in self._unseen.items() if name not in names}
                    self._unseen = {}
                    if len(missing) + len(others) > TOPICS_MAX:
                        others = {}
                    await self._look_at(missing, owner, others, keep=names)
        return {name: self._topics[name] for name in names if name in self._topics}

    def _names_to_follow(self, names: Iterable[str]) -> Sequence[str]:
        return [name for name in names if name not in self._topics and name not in self._unknown]

    async def _look_at(
        self,
        names: Sequence[str],
        owner: QuotaKey | None,
        others: Mapping[str, QuotaKey | None],
        *,
        keep: Collection[str],
    ) -> None:
        """Follow these names, and as far as there is room those that others ask for."""
        if len(names) > TOPICS_MAX:
            raise UpstreamError(f"more than {TOPICS_MAX} topics are asked for")
        answer = await self._metadata_of((*names, *others))
        existing = topics_in(answer)
        requested = {**dict.fromkeys(names, owner), **others}
        self._follow_unknown({name: by for name, by in requested.items() if name not in existing})
        by_owner: defaultdict[QuotaKey | None, list[str]] = defaultdict(list)
        for name in filter(existing.__contains__, others):
            by_owner[others[name]].append(name)
        own = tuple(filter(existing.__contains__, names))
        has_room = self._make_room(owner, len(own), keep)
        followed: dict[str, ClusterTopic] = {}
        for by, group in ((owner, own), *by_owner.items()) if has_room else by_owner.items():
            if self._followed.has_room(by, len(group)):
                followed |= {name: existing[name] for name in group}
                for name in group:
                    self._followed.take(by)
                    self._named_by[name] = by
        if followed:
            for name in followed:
                self._unknown.pop(name)
            self._follow(self._topics | followed)
            known = with_topic_ids(answer).topics
            added = tuple(topic for topic in known if topic.name in followed)
            self._latest = replace(self._latest, topics=(*self._latest.topics, *added))
            self._record_change()
        if not has_room:
            who = "all clients" if owner is None else f"the {owner}"
            limit = TOPICS_MAX if owner is None else self._followed.limit_of(owner)
            raise UpstreamError(f"more than {limit} topics are asked for by {who}")

    def _make_room(self, owner: QuotaKey | None, count: int, keep: Collection[str]) -> bool:
        """Whether the owner may have this many more topics, perhaps after others are dropped."""
        if not self._followed.has_room(owner, count):
            self._give_up_unneeded(keep)
        return self._followed.has_room(owner, count)

    def _give_up_unneeded(self, keep: Collection[str]) -> None:
        """Drop topics that no group needs. The cluster is asked again if one is needed later."""
        if trio.current_time() < self._next_give_up_s:
            return
        self._next_give_up_s = trio.current_time() + GIVE_UP_INTERVAL_S
        needed = {*keep, *self.needed_topics()}
        self._follow({name: topic for name, topic in self._topics.items() if name in needed})
        topics = tuple(topic for topic in self._latest.topics if topic.name in self._topics)
        self._latest = replace(self._latest, topics=topics)

    def _follow(self, topics: dict[str, ClusterTopic]) -> None:
        for name in self._topics.keys() - topics.keys():
            self._followed.free(self._named_by.pop(name))
        for name in topics.keys() - self._named_by.keys():
            self._named_by[name] = None
            self._followed.take(None)
        self._topics = topics
        self._name_of = {topic.topic_id: name for name, topic in topics.items()}

    def _follow_unknown(self, names: Mapping[str, QuotaKey | None]) -> None:
        excess = sum(len(self._unknown.put(name, None, by)) for name, by in names.items())
        if excess:
            log.warning("topic_names_given_up", names=excess, names_max=UNKNOWN_NAMES_MAX)

    def known_ids(self, names: Iterable[str]) -> Mapping[str, UUID]:
        """The ids of the named topics, as far as they are kept up to date and exist."""
        return {name: self._topics[name].topic_id for name in names if name in self._topics}

    def leaders_of(self, names: Collection[str]) -> Mapping[tuple[str, int], int]:
        """The leader of each partition of these topics, as far as they are kept up to date."""
        return {
            (topic.name, partition.partition_index): partition.leader_id
            for topic in self._latest.topics
            if topic.name is not None and topic.name in names
            for partition in topic.partitions
            if partition.leader_id in self.brokers
        }

    async def names_of(self, topic_ids: Collection[UUID]) -> Mapping[UUID, str]:
        """The names of these topics, as far as they exist. Raises UpstreamError.

        An unknown id triggers a listing of all topics, unless the last one was too recent.
        """
        listed = self.names.by_id
        if any(topic_id not in self._name_of and topic_id not in listed for topic_id in topic_ids):
            listed = await self.names.get()
        named = {
            topic_id: self._name_of.get(topic_id) or listed.get(topic_id) for topic_id in topic_ids
        }
        return {topic_id: name for topic_id, name in named.items() if name is not None}

    async def names_now(self, topic_ids: Collection[UUID]) -> Mapping[UUID, str]:
        """The names of these topics, even of one that has just been created, without those that
        were deleted. The topics are kept up to date from now on. Needs brokers of Kafka 2.8 or
        newer. Raises UpstreamError."""
        unknown = (topic_id for topic_id in topic_ids if topic_id not in self._name_of)
        if missing := [topic_id for topic_id in unknown if topic_id != NO_TOPIC_ID]:
            if len(missing) > TOPICS_MAX:
                raise UpstreamError(f"more than {TOPICS_MAX} topics are asked for")
            request = MetadataRequest(
                topics=tuple(
                    MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in missing
                ),
                allow_auto_topic_creation=False,
            )
            answer = await self._ask_any(
                request, PROMPT_ANSWER_TIMEOUT_S, METADATA_BY_TOPIC_ID_SINCE
            )
            names = names_in(answer).values()
            if any(name in self._topics for name in names):
                await self.refresh()  # the topic has taken the place of a deleted one
            for name in names:
                self._unknown.pop(name)
            await self.topics_for(names)
        return {
            topic_id: self._name_of[topic_id] for topic_id in topic_ids if topic_id in self._name_of
        }

    async def ask_names(self) -> Mapping[UUID, str]:
        """List the names of all topics by id. `names` caches them. Raises UpstreamError."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return names_in(await self._ask_any(request, math.inf))

    async def coordinator_of(self, group_id: str, *, doubtful: int | None = None) -> int:
        """The node id of the group's coordinator. `doubtful` is a broker to ask last.

        Raises UpstreamError if the group has none for now.
        """
        node_or_error = (await self.coordinators_of((group_id,), doubtful=doubtful))[group_id]
        if isinstance(node_or_error, UpstreamError):
            raise UpstreamError(
                str(node_or_error)
            )  # not the one in this frame: it would be a cycle
        return node_or_error

    async def coordinators_of(
        self, group_ids: Iterable[str], *, doubtful: int | None = None
    ) -> Mapping[str, int | UpstreamError]:
        """The node id of each group's coordinator, or the error if it has none for now."""
        failure = UpstreamError("no broker is known")
        nodes: dict[str, int | UpstreamError] = dict.fromkeys(group_ids, failure)
        missing = tuple(nodes)
        for node_id in self._connections.in_turn(self.brokers, doubtful):
            if not missing:
                break
            try:
                nodes |= await self._coordinators_from(node_id, missing)
            except UpstreamError as error:
                nodes |= dict.fromkeys(missing, UpstreamError(str(error)))
            missing = tuple(
                group_id for group_id in missing if isinstance(nodes[group_id], UpstreamError)
            )
        return nodes

    async def _coordinators_from(
        self, node_id: int, group_ids: Sequence[str]
    ) -> Mapping[str, int | UpstreamError]:
        connection = await self._connections.connect(node_id)
        version = connection.highest_version(ApiKey.FIND_COORDINATOR)
        if version >= _FIRST_BATCHED_COORDINATORS:
            request = FindCoordinatorRequest(coordinator_keys=tuple(group_ids))
            answer: FindCoordinatorResponse = await self._connections.ask_within(
                PROMPT_ANSWER_TIMEOUT_S, node_id, request, version
            )
            return {
                coordinator.key: _node_or_error(coordinator.key, coordinator)
                for coordinator in answer.coordinators
            }
        too_many = UpstreamError(f"more than {COORDINATORS_ONE_BY_ONE_MAX} groups at once")
        nodes: dict[str, int | UpstreamError] = dict.fromkeys(group_ids, too_many)
        failures: list[str] = []

        async def find(group_id: str) -> None:
            request = FindCoordinatorRequest(key=group_id)
            try:
                one = await self._connections.ask_within(
                    PROMPT_ANSWER_TIMEOUT_S, node_id, request, version
                )
            except UpstreamError as error:
                failures.append(str(error))
            else:
                nodes[group_id] = _node_or_error(group_id, one)

        served_ids = group_ids[:COORDINATORS_ONE_BY_ONE_MAX]
        for together in batches(served_ids, COORDINATORS_TOGETHER_MAX):
            async with trio.open_nursery() as finding:
                for group_id in together:
                    finding.start_soon(find, group_id)
            if failures:
                raise UpstreamError(failures[0])
        return nodes

    async def ask(self, node_id: int, message: Struct, version: int | None = None) -> Any:
        """Send an idempotent request to one broker: `BrokerConnections.ask`."""
        return await self._connections.ask(node_id, message, version)

    async def versions_of(self, node_id: int) -> Versions:
        """The API versions of a broker. Raises UpstreamError."""
        return (await self._connections.connect(node_id)).versions

    async def _watch(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        wait_s = self._poll_interval_s
        lost = False
        while True:
            await trio.sleep(wait_s)
            try:
                await self.refresh()
            except UpstreamError as error:
                wait_s = backoff_s
                backoff_s = min(2 * backoff_s, LAST_BACKOFF_S)
                if not lost:
                    self._emit(UpstreamLost(reason=str(error), next_retry_s=wait_s))
                lost = True
            else:
                wait_s, backoff_s = self._poll_interval_s, FIRST_BACKOFF_S
                if lost:
                    self._emit(UpstreamBack(brokers=tuple(sorted(self.brokers))))
                lost = False

    def _address_of(self, node_id: int) -> Address | None:
        return self.brokers.get(node_id)

    def _learn(self, answer: MetadataResponse, names: tuple[str, ...]) -> None:
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        if not brokers:
            raise UpstreamError("the cluster reports no brokers yet")
        topics = topics_in(answer)
        for topic in answer.topics:
            # Only "no such topic" removes a known topic; other errors are transient.
            if topic.error_code not in {0, _UNKNOWN_TOPIC} and topic.name in self._topics:
                topics[topic.name] = self._topics[topic.name]
        news = (brokers, answer.cluster_id, topics) != (self.brokers, self.cluster_id, self._topics)
        self.brokers, self.cluster_id = brokers, answer.cluster_id
        self._follow(topics)
        for name in names:
            if name in topics:
                self._unknown.pop(name)
            elif name not in self._unknown:
                self._unknown.put(name, None)
        self.addresses |= brokers
        self._latest = with_topic_ids(answer)
        if news:
            self._record_change()

    def _record_change(self) -> None:
        self.changed.set()
        self.changed = trio.Event()

    async def _ask_any(
        self, message: MetadataRequest, timeout_s: float, version: int | None = None
    ) -> MetadataResponse:
        reason = "no broker is known"
        for node_id in self._connections.in_turn(self.brokers):
            try:
                answer: MetadataResponse = await self._connections.ask_within(
                    timeout_s, node_id, message, version
                )
            except UpstreamError as error:
                reason = str(error)
                continue
            if self._is_of_this_cluster(answer):
                return answer
            reason = self._name_other_cluster(f"broker {node_id}", answer)
            self._connections.reject(node_id, reason)
        raise UpstreamError(reason)

    def _is_of_this_cluster(self, answer: MetadataResponse) -> bool:
        """Whether no other cluster has answered. A broker without an id may still be starting."""
        return None in (self._only_id, answer.cluster_id) or answer.cluster_id == self._only_id

    def _name_other_cluster(self, broker: str, answer: MetadataResponse) -> str:
        return f"{broker} belongs to cluster {answer.cluster_id}, not to {self._only_id}"

    async def _ask_bootstrap(self, message: MetadataRequest) -> MetadataResponse:
        """Ask each bootstrap address in turn. Raises UpstreamRefused at the first refusal."""
        reasons = []
        for host, port in self._bootstrap:
            try:
                with trio.fail_after(BOOTSTRAP_TIMEOUT_S):
                    return await self._ask_address(host, port, message)
            except UpstreamRefused:
                raise
            except UpstreamError as error:
                reasons.append(str(error))
            except trio.TooSlowError:
                reasons.append(f"{host}:{port} did not answer in {BOOTSTRAP_TIMEOUT_S:g} s")
            if not self.brokers and len(reasons) < len(self._bootstrap):
                log.warning("bootstrap_address_failed", reason=reasons[-1])
        raise UpstreamError("; ".join(reasons) or "no bootstrap address is given")

    async def _ask_address(
        self, host: str, port: int, message: MetadataRequest
    ) -> MetadataResponse:
        async with await BrokerConnection.open(host, port, access=self.access) as connection:
            try:
                answer: MetadataResponse = await connection.ask(message)
            except UpstreamClosed:
                # Before authentication a broker answers ApiVersions and nothing else.
                if not self.access.credentials and ApiKey.SASL_HANDSHAKE in connection.versions:
                    raise UpstreamRefused(
                        f"{host}:{port} closed the connection at Metadata: most likely it"
                        " wants SASL: set upstream_security_protocol to sasl_plaintext or sasl_ssl"
                    ) from None
                raise
            if not self._is_of_this_cluster(answer):
                raise UpstreamError(self._name_other_cluster(f"{host}:{port}", answer))
            self.versions, self.answered = connection.versions, (host, port)
            return answer


def _node_or_error(
    group_id: str, coordinator: Coordinator | FindCoordinatorResponse
) -> int | UpstreamError:
    if coordinator.error_code:
        return UpstreamError(
            f"no coordinator for group {group_id}: {name_of(coordinator.error_code)}"
        )
    return coordinator.node_id
