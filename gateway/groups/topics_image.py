"""The topics a group cares about, as the engine wants them: an image with a version.

Must not know what the group does with them.
"""

from collections.abc import Iterable
from dataclasses import replace

from coordinator.topics import Topic, Topics
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError

NAMES_MAX = 1_000
"""Names that are followed before anybody asks which of them the group still needs: a client may
name any number of topics that do not exist, and then go, or be refused."""


class TopicsImage:
    """Follows the cluster for the topics of one group; asks it only about names it has not seen."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._names: frozenset[str] = frozenset()
        self._crowded_at = NAMES_MAX
        self._seen_change: object = None
        self._image = Topics()
        self._gone: set[str] = set()

    async def get(self, names: Iterable[str]) -> Topics:
        """An image that has these names and all earlier ones.

        Raises UpstreamError only if it must ask the cluster about a name that is new.
        """
        wanted = self._names.union(names)
        if wanted != self._names or self._seen_change is not self._cluster.changed:
            try:
                topics = await self._cluster.topics_for(wanted)
            except UpstreamError:
                if wanted == self._names:
                    return self._image
                raise
            self._names, self._seen_change = wanted, self._cluster.changed
            by_name = {
                name: Topic(
                    name=name,
                    topic_id=topic.topic_id,
                    partition_count=topic.partition_count,
                    racks=topic.racks,
                )
                for name, topic in topics.items()
            }
            if by_name != self._image.by_name:
                self._gone |= {
                    name
                    for name, topic in self._image.by_name.items()
                    if name in wanted
                    and (name not in by_name or by_name[name].topic_id != topic.topic_id)
                }
                self._image = Topics(by_name, version=self._image.version + 1)
        if self._image.names_version != self._cluster.names.version:
            self._image = replace(self._image, names_version=self._cluster.names.version)
        return self._image

    @property
    def is_crowded(self) -> bool:
        """Whether it is time to `keep_only` what the group needs."""
        return len(self._names) > self._crowded_at

    def keep_only(self, names: Iterable[str]) -> None:
        """Forget all other names."""
        self._names = self._names.intersection(names)
        self._seen_change = None  # the next image is made without them
        self._crowded_at = max(NAMES_MAX, 2 * len(self._names))

    def take_gone(self) -> tuple[str, ...]:
        """Topics that were deleted, perhaps to be made anew, since this was asked last."""
        gone, self._gone = tuple(sorted(self._gone)), set()
        return gone

    def follow_names(self) -> None:
        """Let the image's `names_version` tell before long whether topics appeared."""
        self._cluster.names.want()

    @property
    def latest(self) -> Topics:
        """The image as it was last made."""
        return self._image
