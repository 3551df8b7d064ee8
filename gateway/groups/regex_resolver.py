"""Matches the regular expressions of groups against all topic names of the cluster.

Matching may take seconds, so it runs in a thread while the group keeps working. The names are those
that both the gateway and the group's members may describe.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager

import structlog
import trio

from coordinator.consumer.topic_regex import match_topics
from coordinator.interface.events import RegexesResolved
from gateway.cluster.cluster import TOPICS_MAX, Cluster
from gateway.cluster.errors import UpstreamError
from gateway.quotas.quota_cache import QuotaCache
from gateway.quotas.quota_key import QuotaKey
from gateway.quotas.shares import ShareRule

log = structlog.get_logger()

RESOLUTIONS_AT_ONCE_MAX = 2
"""Threads that match; further resolutions wait."""
MATCHED_TOPICS_MAX = TOPICS_MAX // 2
"""Topics that all regular expressions of one group may match together."""
REPORTED_MAX = 10_000
"""Regular expressions remembered as reported for matching too many topics."""

Described = Callable[[str, Collection[str]], Awaitable[frozenset[str]]]


class RegexResolver:
    """Serves all groups."""

    def __init__(self, cluster: Cluster, described: Described) -> None:
        """`described`: those of the topics that members of a group may describe."""
        self._cluster = cluster
        self._described = described
        self._reported: QuotaCache[int, None] = QuotaCache(REPORTED_MAX, ShareRule())
        self._under_way: dict[str, trio.Event] = {}
        self._limiter = trio.CapacityLimiter(RESOLUTIONS_AT_ONCE_MAX)
        self._limiter_of_questions = trio.CapacityLimiter(1)

    @contextmanager
    def under_way(self, group_id: str) -> Iterator[None]:
        """The time in which a group's expressions are matched and the group learns the matches."""
        ended = self._under_way[group_id] = trio.Event()
        try:
            yield
        finally:
            if self._under_way.get(group_id) is ended:
                del self._under_way[group_id]
            ended.set()

    async def until_resolved(self, group_id: str) -> None:
        """Wait for the resolution that is under way, if any."""
        if group_id in self._under_way:
            await self._under_way[group_id].wait()

    async def resolve(
        self, group_id: str, regexes: Collection[str], owner: QuotaKey | None = None
    ) -> RegexesResolved:
        """The topics that each expression matches now. Their metadata is loaded into the cluster's
        image. `owner`: who named the group first."""
        try:
            version, matched, too_broad = await self._match(regexes, self._limiter)
            every = frozenset().union(*matched.values())
            described = await self._described(group_id, every)
            matched = {regex: topics & described for regex, topics in matched.items()}
            for regex, topics in too_broad.items():
                self._report_too_broad(group_id, regex, topics, owner)
            await self._cluster.topics_for(described, owner)
        except UpstreamError as error:
            log.warning("regexes_unresolved", group_id=group_id, reason=str(error))
            return RegexesResolved(topics=None)
        return RegexesResolved(topics=matched, version=version)

    async def topics_of(self, regexes: Collection[str]) -> frozenset[str]:
        """The topics that the expressions match, described or not. Raises UpstreamError."""
        _version, matched, _too_broad = await self._match(regexes, self._limiter_of_questions)
        return frozenset().union(*matched.values())

    async def _match(
        self, regexes: Collection[str], limiter: trio.CapacityLimiter
    ) -> tuple[int, dict[str, frozenset[str]], dict[str, int]]:
        names = (await self._cluster.names.get()).values()
        version = self._cluster.names.version
        matched, too_broad = await trio.to_thread.run_sync(
            _match, regexes, tuple(names), abandon_on_cancel=True, limiter=limiter
        )
        return version, matched, too_broad

    def _report_too_broad(
        self, group_id: str, regex: str, topics: int, owner: QuotaKey | None
    ) -> None:
        """Log an expression once, however often it is matched."""
        key = hash((group_id, regex))  # a fixed size, because clients choose the lengths of names
        if key not in self._reported:
            log.error(
                "regex_too_broad",
                group_id=group_id,
                regex=regex,
                topics=topics,
                topics_max=MATCHED_TOPICS_MAX,
            )
        self._reported.put(key, None, owner)


def _match(
    regexes: Collection[str], names: Collection[str]
) -> tuple[dict[str, frozenset[str]], dict[str, int]]:
    """The topics that each expression matches, and the match counts of those dropped. If a group
    would have too many topics, its broadest expressions match nothing. DEV D19: Kafka has no
    limit."""
    matched: dict[str, frozenset[str]] = {}
    too_broad: dict[str, int] = {}
    together: frozenset[str] = frozenset()
    topics = match_topics(regexes, names)
    for regex in sorted(topics, key=lambda regex: (len(topics[regex]), regex)):
        fits = len(together | topics[regex]) <= MATCHED_TOPICS_MAX
        matched[regex] = topics[regex] if fits else frozenset()
        together |= matched[regex]
        if not fits:
            too_broad[regex] = len(topics[regex])
    return matched, too_broad
