"""The cluster as the gateway sees it, with the mock cluster and fake brokers."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
import trio
from structlog.testing import capture_logs

from gateway.cluster import cluster as cluster_module
from gateway.cluster.cluster import Cluster
from gateway.cluster.errors import UpstreamError, UpstreamRefused
from gateway.quotas.quota_key import QuotaKey
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_codecs.header import RequestHeader
from kafka_codecs.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.fake_broker import FakeBroker, answer, running_fake_broker, together
from tests.support.garbage import freed_at_once
from tests.support.mock_cluster import running_mock_cluster
from tests.support.ports import HOST, free_port
from tests.support.until import until_logged
from tests.support.wire import Wire


async def test_brokers_and_topics_are_found(nursery: trio.Nursery) -> None:
    """Topics are looked up on demand, and never created by it."""
    async with running_mock_cluster() as upstream:
        await upstream.create_topic("orders", 12)
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        assert sorted(cluster.brokers.values()) == sorted(upstream.bootstrap)
        topics = await cluster.topics_for(["orders", "nowhere"])
        assert topics.keys() == {"orders"}
        assert topics["orders"].partition_count == 12
        assert topics["orders"].topic_id.int
        assert (await cluster.topics_for(["nowhere"])) == {}
        answer = await cluster.ask(min(cluster.brokers), MetadataRequest(topics=None))
        assert [topic.name for topic in answer.topics] == ["orders"]
        nursery.cancel_scope.cancel()


async def test_a_broker_that_is_away_leaves_no_garbage_behind_requests(
    nursery: trio.Nursery,
) -> None:
    """The traceback of each error has the request's frames, and those have the client."""
    async with running_mock_cluster(1) as upstream:
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        cluster.brokers = {1: (HOST, free_port())}
        with freed_at_once(UpstreamError):
            for _ in range(2):
                with contextlib.suppress(UpstreamError):
                    await cluster.coordinator_of("g")
                with contextlib.suppress(UpstreamError):
                    await cluster.ask_names()
        nursery.cancel_scope.cancel()


async def test_simultaneous_callers_share_an_answer(nursery: trio.Nursery) -> None:
    """A starting gateway loads a thousand groups, each with its topics."""
    asked: list[MetadataRequest] = []

    class Counted(Cluster):
        async def _ask_any(
            self, message: Struct, timeout_s: float, version: int | None = None
        ) -> Any:
            assert isinstance(message, MetadataRequest)
            asked.append(message)
            return await super()._ask_any(message, timeout_s, version)

    async with running_mock_cluster(1) as upstream:
        await upstream.create_topic("orders", 12)
        cluster = Counted(upstream.bootstrap)
        await nursery.start(cluster.run)
        asked.clear()
        async with trio.open_nursery() as asking:
            for number in range(100):
                asking.start_soon(cluster.topics_for, ["orders", f"nowhere-{number}"])
        assert [len(message.topics or ()) for message in asked] == [101]
        nursery.cancel_scope.cancel()


async def test_changes_are_noticed_and_announced(nursery: trio.Nursery) -> None:
    """A new topic and a new broker."""
    async with running_mock_cluster(2) as upstream:
        cluster = Cluster(upstream.bootstrap, poll_interval_s=0.01)
        await nursery.start(cluster.run)
        assert await cluster.topics_for(["late"]) == {}
        changed = cluster.changed
        await upstream.create_topic("late", 3)
        with trio.fail_after(5):
            await changed.wait()
        assert (await cluster.topics_for(["late"]))["late"].partition_count == 3
        changed = cluster.changed
        await upstream.add_broker(7)
        with trio.fail_after(5):
            await changed.wait()
        assert sorted(cluster.brokers) == [1, 2, 7]
        nursery.cancel_scope.cancel()


async def test_any_bootstrap_address_is_enough(nursery: trio.Nursery) -> None:
    """Addresses that do not answer are skipped."""
    async with running_mock_cluster(1) as upstream, running_fake_broker(FakeBroker()) as gone:
        dead = gone.address
    async with running_mock_cluster(1) as upstream:
        cluster = Cluster([dead, *upstream.bootstrap])
        await nursery.start(cluster.run)
        assert list(cluster.brokers) == [1]
        nursery.cancel_scope.cancel()


async def test_no_reachable_bootstrap_address_is_one_clear_line() -> None:
    """The line has the reason for each address."""
    async with running_fake_broker(FakeBroker()) as gone:
        dead = gone.address
    with pytest.raises(UpstreamError, match=f"cannot connect to 127.0.0.1:{dead[1]}: ") as caught:
        await Cluster([dead, dead]).run()
    assert "\n" not in str(caught.value)


async def test_an_upstream_that_requires_sasl_is_refused() -> None:
    """Before authentication such a broker answers ApiVersions, and closes after any other
    request."""

    async def close(wire: Wire, header: RequestHeader, body: bytes) -> None:
        raise EOFError

    broker = FakeBroker(handlers={ApiKey.METADATA: close})
    broker.versions = {**broker.versions, ApiKey.SASL_HANDSHAKE: (0, 1)}
    async with running_fake_broker(broker):
        with pytest.raises(UpstreamRefused, match="most likely it wants SASL"):
            await Cluster([broker.address]).run()


async def test_an_outage_of_the_cluster_is_logged_once_and_so_is_its_end(
    nursery: trio.Nursery,
) -> None:
    """The gateway retries at growing intervals."""
    with capture_logs() as lines:
        async with running_mock_cluster(2) as upstream:
            cluster = Cluster(upstream.bootstrap, poll_interval_s=0.02)
            await nursery.start(cluster.run)
            for node_id in (1, 2):
                await upstream.set_down(node_id)
            await until_logged(lines, "upstream_lost")
            with pytest.raises(UpstreamError):
                await cluster.refresh()
            for node_id in (1, 2):
                await upstream.set_up(node_id)
            await until_logged(lines, "upstream_back")
            nursery.cancel_scope.cancel()
    events = [line["event"] for line in lines]
    assert events == ["upstream_lost", "upstream_back"]
    assert lines[0]["next_retry_s"] > 0
    assert lines[0]["reason"]


@pytest.mark.parametrize("highest", [3, 4])
async def test_coordinators_are_found_in_old_and_new_versions(
    nursery: trio.Nursery, highest: int
) -> None:
    """Up to v3 a request has one key, from v4 on many (KIP-699). A missing coordinator affects no
    other key."""

    async def find(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked = decode(FindCoordinatorRequest, body, header.api_version)
        codes = {key: 15 if key == "lost" else 0 for key in (asked.key, *asked.coordinator_keys)}
        if header.api_version >= 4:
            message = FindCoordinatorResponse(
                coordinators=tuple(
                    Coordinator(key=key, node_id=7, host="h", port=1, error_code=codes[key])
                    for key in asked.coordinator_keys
                )
            )
        else:
            message = FindCoordinatorResponse(
                node_id=7, host="h", port=1, error_code=codes[asked.key]
            )
        await answer(wire, header, message)

    broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: find})
    broker.versions = {**broker.versions, ApiKey.FIND_COORDINATOR: (0, highest)}
    async with running_fake_broker(broker):
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        assert await cluster.coordinator_of("g") == 7
        seen_before = len(broker.seen)
        coordinators = await cluster.coordinators_of(("g", "lost", "h"))
        assert (coordinators["g"], coordinators["h"]) == (7, 7)
        assert isinstance(coordinators["lost"], UpstreamError)
        assert len(broker.seen) - seen_before == (1 if highest >= 4 else 3)
        nursery.cancel_scope.cancel()


async def test_an_old_broker_gets_pipelined_requests_for_coordinators(
    nursery: trio.Nursery,
) -> None:
    """A round trip per group would delay the start of a gateway with many groups."""

    async def find(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await answer(wire, header, FindCoordinatorResponse(node_id=7, host="h", port=1))

    broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: together(3, find)})
    broker.versions = {**broker.versions, ApiKey.FIND_COORDINATOR: (0, 3)}
    async with running_fake_broker(broker):
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        with trio.fail_after(cluster_module.PROMPT_ANSWER_TIMEOUT_S):
            assert await cluster.coordinators_of("abc") == dict.fromkeys("abc", 7)
        nursery.cancel_scope.cancel()


async def test_a_hanging_old_broker_gets_no_further_requests(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt would cost the time of a timeout."""
    monkeypatch.setattr(cluster_module, "PROMPT_ANSWER_TIMEOUT_S", 0.1)
    monkeypatch.setattr(cluster_module, "COORDINATORS_TOGETHER_MAX", 1)
    asked: list[str] = []

    async def find(wire: Wire, header: RequestHeader, body: bytes) -> None:
        asked.append(decode(FindCoordinatorRequest, body, header.api_version).key)
        await trio.sleep_forever()

    broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: find})
    broker.versions = {**broker.versions, ApiKey.FIND_COORDINATOR: (0, 3)}
    async with running_fake_broker(broker):
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        coordinators = await cluster.coordinators_of("abc")
        assert all(isinstance(coordinator, UpstreamError) for coordinator in coordinators.values())
        assert asked == ["a"]
        nursery.cancel_scope.cancel()


async def test_a_missing_coordinator_is_an_error(nursery: trio.Nursery) -> None:
    """COORDINATOR_NOT_AVAILABLE, for example."""

    async def find(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await answer(
            wire,
            header,
            FindCoordinatorResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, node_id=-1, port=-1
            ),
        )

    broker = FakeBroker(handlers={ApiKey.FIND_COORDINATOR: find})
    broker.versions = {**broker.versions, ApiKey.FIND_COORDINATOR: (0, 3)}
    async with running_fake_broker(broker):
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        with pytest.raises(
            UpstreamError, match="no coordinator for group g: COORDINATOR_NOT_AVAILABLE"
        ):
            await cluster.coordinator_of("g")
        nursery.cancel_scope.cancel()


async def test_a_temporary_error_removes_no_topic(nursery: trio.Nursery) -> None:
    """Only UNKNOWN_TOPIC_OR_PARTITION does: a group must not lose partitions during an election."""
    error_code = 0

    async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
        host, port = broker.address
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        topic = MetadataResponseTopic(
            name="t", error_code=error_code, partitions=() if error_code else (partition,)
        )
        brokers = (MetadataResponseBroker(node_id=1, host=host, port=port),)
        await answer(wire, header, MetadataResponse(brokers=brokers, topics=(topic,)))

    async with running_fake_broker(FakeBroker(handlers={ApiKey.METADATA: metadata})) as broker:
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        assert (await cluster.topics_for(["t"]))["t"].partition_count == 1
        error_code = ErrorCode.LEADER_NOT_AVAILABLE
        await cluster.refresh()
        assert (await cluster.topics_for(["t"]))["t"].partition_count == 1
        error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        await cluster.refresh()
        assert await cluster.topics_for(["t"]) == {}
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def opened_with_topics(topics: dict[str, UUID]) -> AsyncIterator[Cluster]:
    """A cluster whose only broker has these topics, whenever it is asked."""

    async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(MetadataRequest, body, header.api_version)
        existing = tuple(
            MetadataResponseTopic(name=name, topic_id=topic_id, partitions=())
            for name, topic_id in topics.items()
            if request.topics is None
            or any(topic_id == asked.topic_id or name == asked.name for asked in request.topics)
        )
        message = MetadataResponse(brokers=broker.metadata().brokers, topics=existing)
        await answer(wire, header, message)

    async with (
        running_fake_broker(FakeBroker(handlers={ApiKey.METADATA: metadata})) as broker,
        trio.open_nursery() as nursery,
    ):
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        yield cluster
        nursery.cancel_scope.cancel()


async def test_the_id_of_a_deleted_topic_does_not_match_its_successor() -> None:
    """This holds even if the id was seen under that name."""
    deleted, recreated = UUID(int=1), UUID(int=2)
    topics = {"t": deleted}
    async with opened_with_topics(topics) as cluster:
        assert await cluster.names_now([deleted, recreated]) == {deleted: "t"}
        topics["t"] = recreated
        assert await cluster.names_now([deleted, recreated]) == {recreated: "t"}
        assert await cluster.names_now([deleted]) == {}


async def test_a_new_topic_is_known_by_its_id_at_once() -> None:
    """This holds even if all topics were listed, or its name was asked for, just before it was
    created."""
    topics: dict[str, UUID] = {}
    async with opened_with_topics(topics) as cluster:
        assert await cluster.names.get() == {}
        assert await cluster.topics_for(["new"]) == {}
        topics["new"] = UUID(int=1)
        assert await cluster.names_now([UUID(int=1)]) == {UUID(int=1): "new"}


async def test_as_many_ids_are_asked_for_as_topics_may_be_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client may send arbitrary ids."""
    monkeypatch.setattr(cluster_module, "TOPICS_MAX", 1)
    async with opened_with_topics({}) as cluster:
        assert await cluster.names_now([UUID(int=1)]) == {}
        with pytest.raises(UpstreamError, match="more than 1 topics"):
            await cluster.names_now([UUID(int=1), UUID(int=2)])


async def test_the_number_of_followed_topics_is_limited(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics beyond the limit are refused, and earlier ones stay."""
    monkeypatch.setattr(cluster_module, "TOPICS_MAX", 2)
    async with running_mock_cluster(1) as upstream:
        for name in "abc":
            await upstream.create_topic(name, 1)
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        await cluster.topics_for(["a"])
        with pytest.raises(UpstreamError, match="more than 2 topics"):
            await cluster.topics_for(["b", "c"])
        with pytest.raises(UpstreamError, match="more than 2 topics"):
            await cluster.topics_for(["d", "e", "f"])
        assert (await cluster.topics_for(["a", "b", "d"])).keys() == {"a", "b"}
        nursery.cancel_scope.cancel()


async def test_one_address_leaves_topics_for_others(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of groups may name the topics of one address. Others get theirs, and what is
    dropped may be had again."""
    monkeypatch.setattr(cluster_module, "TOPICS_MAX", 8)
    monkeypatch.setattr(cluster_module, "GIVE_UP_INTERVAL_S", 0)
    greedy, modest = QuotaKey("10.0.0.1"), QuotaKey("10.0.0.2")
    async with running_mock_cluster(1) as upstream:
        for name in "abcdefghi":
            await upstream.create_topic(name, 1)
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        await cluster.topics_for("ab", greedy)
        await cluster.topics_for("cd", greedy)
        with pytest.raises(UpstreamError, match=r"more than 4 topics .* by the address 10.0.0.1"):
            await cluster.topics_for("e", greedy)
        assert (await cluster.topics_for("ef", modest)).keys() == set("ef")
        assert (await cluster.topics_for("ae", greedy)).keys() == set("ae")
        cluster.needed_topics = lambda: "abef"
        assert (await cluster.topics_for("g", greedy)).keys() == {"g"}
        nursery.cancel_scope.cancel()


async def test_the_topics_of_others_are_followed_although_one_has_too_many(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics that come at the same time are requested together."""
    monkeypatch.setattr(cluster_module, "TOPICS_MAX", 8)
    greedy, modest = QuotaKey("10.0.0.1"), QuotaKey("10.0.0.2")
    async with running_mock_cluster(1) as upstream:
        for name in "abcdefghi":
            await upstream.create_topic(name, 1)
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        outcomes: dict[str, object] = {}

        async def ask(names: str, owner: QuotaKey) -> None:
            try:
                outcomes[names] = set(await cluster.topics_for(names, owner))
            except UpstreamError as error:
                outcomes[names] = type(error)

        async with trio.open_nursery() as asking:
            async with cluster._refreshing:
                for names, owner in (("abcdef", greedy), ("gh", modest), ("i", greedy)):
                    asking.start_soon(ask, names, owner)
                await trio.testing.wait_all_tasks_blocked()
        assert outcomes == {"abcdef": UpstreamError, "gh": set("gh"), "i": {"i"}}
        nursery.cancel_scope.cancel()


async def test_unused_topics_make_room(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups come and go with their topics, and the next request names the remaining ones. Topics
    of a running look-up stay as well."""
    monkeypatch.setattr(cluster_module, "TOPICS_MAX", 3)
    monkeypatch.setattr(cluster_module, "GIVE_UP_INTERVAL_S", 0)
    async with running_mock_cluster(1) as upstream:
        for name in "abcde":
            await upstream.create_topic(name, 1)
        cluster = Cluster(upstream.bootstrap)
        await nursery.start(cluster.run)
        await cluster.topics_for(["a", "b", "c"])
        cluster.needed_topics = lambda: ["b"]
        assert (await cluster.topics_for(["c", "d"])).keys() == {"c", "d"}
        assert len(cluster.known_ids("abcd")) == len("bcd")
        assert {topic for topic, _ in cluster.leaders_of("abc")} == {"b", "c"}
        assert {*cluster.leaders_of("bcd").values()} <= cluster.brokers.keys()
        cluster.needed_topics = lambda: ["b", "c", "d"]
        with pytest.raises(UpstreamError, match="more than 3 topics"):
            await cluster.topics_for(["e"])
        assert (await cluster.topics_for("bcd")).keys() == set("bcd")
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def following(
    nursery: trio.Nursery,
) -> AsyncIterator[tuple[Cluster, list[list[str | None]]]]:
    """A cluster that follows no topics yet, and the names in each request for topics."""
    asked: list[list[str | None]] = []

    async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(MetadataRequest, body, header.api_version)
        asked.append([topic.name for topic in request.topics or ()])
        await answer(wire, header, broker.metadata())

    broker = FakeBroker(handlers={ApiKey.METADATA: metadata})
    async with running_fake_broker(broker):
        cluster = Cluster([broker.address])
        await nursery.start(cluster.run)
        asked.clear()
        yield cluster, asked
        nursery.cancel_scope.cancel()


async def test_invented_names_are_requested_once_and_dropped(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client names thousands, and then one more repeatedly. Each request has only new names, and
    the newest nonexistent names are kept."""
    monkeypatch.setattr(cluster_module, "UNKNOWN_NAMES_MAX", 3)
    async with following(nursery) as (cluster, asked):
        await cluster.topics_for([f"n{number}" for number in range(10)])
        await cluster.topics_for(["n9", "new"])
        await cluster.topics_for(["n9", "new"])
        await cluster.refresh()
        assert asked == [[f"n{number}" for number in range(10)], ["new"], ["n8", "n9", "new"]]


async def test_one_client_leaves_the_names_that_others_wait_for(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client names thousands of topics, another one a topic that will soon be created."""
    monkeypatch.setattr(cluster_module, "UNKNOWN_NAMES_MAX", 4)
    async with following(nursery) as (cluster, asked):
        await cluster.topics_for(["soon"], QuotaKey("10.0.0.1"))
        await cluster.topics_for([f"n{number}" for number in range(9)], QuotaKey("10.0.0.2"))
        await cluster.refresh()
        assert asked[-1] == ["soon", "n7", "n8"]


async def test_simultaneous_names_are_one_request(nursery: trio.Nursery) -> None:
    """The groups of a starting gateway request them."""
    async with following(nursery) as (cluster, asked):
        async with trio.open_nursery() as askers:
            for number in range(20):
                askers.start_soon(cluster.topics_for, [f"n{number}"])
        assert len(asked) <= 2
        assert set().union(*asked) == {f"n{number}" for number in range(20)}


async def test_invalid_topic_names_are_not_requested(nursery: trio.Nursery) -> None:
    """A client may name anything in a commit. A few thousand names of the maximum length, followed
    for ever, would make each answer too large to read."""
    async with following(nursery) as (cluster, asked):
        too_long = [f"{number}".zfill(32_767) for number in range(3)]
        assert await cluster.topics_for([*too_long, "", "a b", "a\n", "longest".zfill(249)]) == {}
        await cluster.refresh()
        assert asked == 2 * [["longest".zfill(249)]]
        assert await cluster.topics_for(too_long) == {}
        assert len(asked) == 2


async def test_a_hanging_broker_is_skipped(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process keeps its connections. Another broker is asked, and from then on first."""
    monkeypatch.setattr(cluster_module, "PROMPT_ANSWER_TIMEOUT_S", 0.1)
    hung: list[RequestHeader] = []
    hangs = False

    async def metadata(wire: Wire, header: RequestHeader, body: bytes) -> None:
        if hangs:
            hung.append(header)
            await trio.sleep_forever()
        brokers = tuple(
            MetadataResponseBroker(node_id=broker.node_id, host="127.0.0.1", port=broker.address[1])
            for broker in (first, second)
        )
        await answer(wire, header, MetadataResponse(brokers=brokers))

    first = FakeBroker(node_id=1, handlers={ApiKey.METADATA: metadata})
    second = FakeBroker(node_id=2)
    async with running_fake_broker(first), running_fake_broker(second):
        cluster = Cluster([first.address])
        await nursery.start(cluster.run)
        await cluster.refresh()
        hangs = True
        with trio.fail_after(5):
            for _ in range(3):
                await cluster.refresh()
        assert len(hung) == 1
        assert list(cluster.brokers) == [2]
        nursery.cancel_scope.cancel()


async def test_a_hanging_bootstrap_address_is_skipped_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hanging process still accepts connections. The next address is tried, and a failed start
    names the addresses that did not answer."""
    monkeypatch.setattr(cluster_module, "BOOTSTRAP_TIMEOUT_S", 0.1)

    async def hang(wire: Wire, header: RequestHeader, body: bytes) -> None:
        await trio.sleep_forever()

    hung = FakeBroker(handlers={ApiKey.API_VERSIONS: hang})
    async with running_fake_broker(hung), running_fake_broker(FakeBroker()) as broker:
        reason = f"127.0.0.1:{hung.address[1]} did not answer in 0.1 s"
        with capture_logs() as lines:
            cluster = Cluster([hung.address, broker.address])
            await cluster.refresh()
        assert cluster.brokers
        assert [(line["event"], line["reason"]) for line in lines] == [
            ("bootstrap_address_failed", reason)
        ]
        with trio.fail_after(5), pytest.raises(UpstreamError, match=reason):
            await Cluster([hung.address]).refresh()


async def test_another_cluster_at_the_same_addresses_counts_as_away(nursery: trio.Nursery) -> None:
    """The address of a load balancer, or a name, may lead to another cluster one day. What is known
    of this one stays, and it is back once its own brokers answer."""
    broker = FakeBroker(cluster_id="here")
    async with running_fake_broker(broker):
        with capture_logs() as lines:
            cluster = Cluster([broker.address], only_id="here", poll_interval_s=0.01)
            await nursery.start(cluster.run)
            broker.cluster_id = "there"
            await until_logged(lines, "upstream_lost")
            assert (cluster.is_away, cluster.cluster_id) == (True, "here")
            with pytest.raises(UpstreamError, match="belongs to cluster there, not to here"):
                await cluster.ask_names()
            broker.cluster_id = "here"
            await until_logged(lines, "upstream_back")
            assert not cluster.is_away
            nursery.cancel_scope.cancel()
    assert "belongs to cluster there, not to here" in lines[0]["reason"]


async def test_a_bootstrap_address_of_another_cluster_is_passed_over(
    nursery: trio.Nursery,
) -> None:
    """An address of another cluster counts as one that does not answer, also at the start."""
    async with (
        running_fake_broker(FakeBroker(cluster_id="there")) as other,
        running_fake_broker(FakeBroker(cluster_id="here")) as broker,
    ):
        cluster = Cluster([other.address, broker.address], only_id="here")
        await nursery.start(cluster.run)
        assert cluster.answered == broker.address
        with pytest.raises(UpstreamError, match="belongs to cluster there, not to here"):
            await Cluster([other.address], only_id="here").refresh()
        nursery.cancel_scope.cancel()
