"""A versioned image of the topics that one group refers to, as the engine needs it."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from coordinator.interface.topics import Topic, Topics
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError
from gateway.cluster.topics import ClusterTopic as ToldTopic
from gateway.events.topic_ids import shown_topic_id
from gateway.quotas.quota_key import QuotaKey

NAMES_MAX = 1_000
"""Names that are followed before unneeded ones are dropped: a client may name any number of topics
that do not exist, and then leave or be refused."""


class TopicsImage:
    """Follows the topics of one group. Asks the cluster only about new names, and makes a new image
    only when a topic was created, changed or deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._names: set[str] = set()
        self._crowded_at = NAMES_MAX
        self._seen_change: object = None
        self._image = Topics()
        self._deleted: dict[str, str] = {}
        """The ids of deleted topics by name, until they are taken."""

    def covers(self, names: Iterable[str]) -> bool:
        """Whether the latest image is up to date and has these names."""
        return (
            self._seen_change is self._cluster.changed
            and self._image.names_version == self._cluster.names.version
            and self._names.issuperset(names)
        )

    async def get(self, names: Iterable[str], owner: QuotaKey | None = None) -> Topics:
        """An image with these names and all earlier ones. `owner`: whose request has the names.

        Raises UpstreamError if the cluster cannot be asked about a new name.
        """
        new = set(names).difference(self._names)
        if self._seen_change is not self._cluster.changed:
            await self._look_at_all(new, owner)
        elif new:
            topics = _engine_topics(await self._cluster.topics_for(new, owner))
            self._names |= new
            if topics:
                self._show({**self._image.by_name, **topics})
        if self._image.names_version != self._cluster.names.version:
            self._image = replace(self._image, names_version=self._cluster.names.version)
        return self._image

    async def _look_at_all(self, new: Set[str], owner: QuotaKey | None) -> None:
        wanted = self._names | new
        try:
            by_name = _engine_topics(await self._cluster.topics_for(wanted, owner))
        except UpstreamError:
            if new:
                raise
            return
        self._names, self._seen_change = wanted, self._cluster.changed
        if by_name != self._image.by_name:
            self._deleted |= {
                name: shown_topic_id(topic.topic_id)
                for name, topic in self._image.by_name.items()
                if name in wanted
                and (name not in by_name or by_name[name].topic_id != topic.topic_id)
            }
            self._show(by_name)

    def _show(self, by_name: Mapping[str, Topic]) -> None:
        self._image = Topics(by_name, version=self._image.version + 1)

    @property
    def names(self) -> Set[str]:
        """The followed names, of existing topics and others."""
        return self._names

    @property
    def is_crowded(self) -> bool:
        """Whether the caller should `keep_only` the names that the group needs."""
        return len(self._names) > self._crowded_at

    def keep_only(self, names: Iterable[str]) -> None:
        """Stop following all other names."""
        self._names.intersection_update(names)
        self._seen_change = None  # so that the next image leaves them out
        self._crowded_at = max(NAMES_MAX, 2 * len(self._names))

    def take_deleted(self) -> Mapping[str, str]:
        """The ids of topics deleted since the previous call, by name; also of those recreated
        since."""
        deleted, self._deleted = self._deleted, {}
        return deleted

    def follow_names(self) -> None:
        """Keep `names_version` up to date, so that new topics show up soon."""
        self._cluster.names.want()

    @property
    def latest(self) -> Topics:
        """The image as it was last made."""
        return self._image


def _engine_topics(topics: Mapping[str, ToldTopic]) -> dict[str, Topic]:
    return {
        name: Topic(
            name=name,
            topic_id=topic.topic_id,
            partition_count=topic.partition_count,
            racks=topic.racks,
        )
        for name, topic in topics.items()
    }
