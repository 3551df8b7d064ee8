"""The image of one group's topics."""

from collections.abc import Iterable, Mapping

import pytest

from coordinator.interface.topics import Topics
from gateway.cluster.errors import UpstreamError
from gateway.cluster.topics import ClusterTopic
from gateway.groups.topics_image import NAMES_MAX, TopicsImage
from gateway.quotas.quota_key import QuotaKey
from tests.support.group_script import topic_id
from tests.support.hosted_groups import ScriptedCluster


async def test_the_image_keeps_earlier_names() -> None:
    """A group does not request its topics again for each request."""
    image = TopicsImage(ScriptedCluster(foo=3, bar=1, other=9))
    assert set((await image.get(["foo"])).by_name) == {"foo"}
    both = await image.get(["bar", "missing"])
    assert set(both.by_name) == {"foo", "bar"}
    assert both.by_name["foo"].partition_count == 3
    assert both.by_name["foo"].topic_id == topic_id("foo")
    assert image.latest is both


async def test_the_version_grows_only_with_a_change() -> None:
    """The engine compares hashes when the version grows."""
    cluster = ScriptedCluster(foo=3)
    image = TopicsImage(cluster)
    first = await image.get(["foo"])
    assert await image.get(["foo"]) is first
    assert await image.get(["missing"]) is first
    cluster.change()
    assert await image.get([]) is first
    cluster.partition_counts["foo"] = 4
    assert await image.get([]) is first, "no change was announced"
    cluster.change()
    grown = await image.get([])
    assert grown.version > first.version
    assert grown.by_name["foo"].partition_count == 4
    del cluster.partition_counts["foo"]
    cluster.change()
    gone = await image.get([])
    assert gone.by_name == {}
    assert gone.version > grown.version


async def test_a_new_name_needs_no_look_up_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This holds for groups of any size, unless the cluster has changed."""
    cluster = ScriptedCluster(foo=3, bar=1)
    image = TopicsImage(cluster)
    many = [f"made-up-{number}" for number in range(100)]
    await image.get(["foo", *many])
    looked_up: list[frozenset[str]] = []
    look_up = cluster.topics_for

    async def noting(
        names: Iterable[str], owner: QuotaKey | None = None
    ) -> Mapping[str, ClusterTopic]:
        looked_up.append(frozenset(names))
        return await look_up(looked_up[-1], owner)

    monkeypatch.setattr(cluster, "topics_for", noting)
    before = image.latest
    assert await image.get(["new"]) is before
    assert set((await image.get(["bar", "foo"])).by_name) == {"foo", "bar"}
    assert looked_up == [{"new"}, {"bar"}]
    cluster.change()
    await image.get([])
    assert looked_up[2:] == [{"foo", "bar", "new", *many}]


async def test_deleted_topics_are_reported_once() -> None:
    """Topics that the group no longer needs are not reported."""
    cluster = ScriptedCluster(foo=3, bar=1)
    image = TopicsImage(cluster)
    await image.get(["foo", "bar"])
    assert not image.take_deleted()
    image.keep_only(["foo"])
    await image.get([])
    assert not image.take_deleted()
    del cluster.partition_counts["foo"]
    cluster.change()
    await image.get([])
    assert list(image.take_deleted()) == ["foo"]
    assert not image.take_deleted()


async def test_a_silent_cluster_affects_only_new_names() -> None:
    """Known topics stay known."""
    cluster = ScriptedCluster(foo=3)
    image = TopicsImage(cluster)
    known = await image.get(["foo"])
    cluster.failure = UpstreamError("nobody listens")
    cluster.change()
    assert await image.get(["foo"]) is known
    with pytest.raises(UpstreamError):
        await image.get(["bar"])
    assert image.latest is known
    cluster.failure = None
    cluster.partition_counts["bar"] = 1
    assert set((await image.get(["bar"])).by_name) == {"foo", "bar"}


async def test_the_image_shows_that_any_topic_appeared() -> None:
    """If the group does not need the topic, its own image stays the same."""
    cluster = ScriptedCluster(foo=3)
    image = TopicsImage(cluster)
    before = await image.get(["foo"])
    assert before.names_version == 0
    await cluster.names.get()
    after = await image.get([])
    assert after.names_version == cluster.names.version > 0
    assert (after.version, after.by_name) == (before.version, before.by_name)
    assert await image.get([]) is after


async def test_a_failed_refresh_keeps_the_known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without new names it never fails, because timers and ends of commits have no request to
    refuse."""
    cluster = ScriptedCluster(foo=3)
    image = TopicsImage(cluster)
    known = await image.get(["foo"])

    async def fail(*_asked: object) -> Topics:
        raise UpstreamError("more than 10000 topics are asked for")

    monkeypatch.setattr(cluster, "topics_for", fail)
    cluster.change()
    assert await image.get([]) is known


async def test_unused_names_are_forgotten() -> None:
    """Unused names come from refused requests and removed members. A group with many topics is not
    checked each time."""
    image = TopicsImage(ScriptedCluster(foo=3, bar=1))
    await image.get(["foo", "bar", *(f"made-up-{n}" for n in range(NAMES_MAX))])
    crowded = [image.is_crowded]
    image.keep_only(["foo", "never asked for"])
    crowded.append(image.is_crowded)
    assert set((await image.get([])).by_name) == {"foo"}
    needed = [f"planned-{n}" for n in range(NAMES_MAX + 1)]
    await image.get(needed)
    crowded.append(image.is_crowded)
    image.keep_only(needed)
    await image.get(["bar"])
    assert [*crowded, image.is_crowded] == [True, False, True, False]
