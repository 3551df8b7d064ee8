"""No answer of any api in any version that is offered names an address of the cluster."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import trio
from kafka.record.memory_records import MemoryRecordsBuilder

from gateway.cluster.broker_connection import BrokerConnection
from kafka_codecs import WireError, encode
from kafka_codecs.apis import APIS, ApiKey
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_configs import (
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kafka_codecs.find_coordinator import CoordinatorType, FindCoordinatorRequest
from kafka_codecs.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from kafka_codecs.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.support.applications import printed_lines
from tests.support.codecs import sample
from tests.support.kafka_broker import FETCH_TIMEOUT_S, PARTITIONS, TOPIC, KafkaCluster
from tests.support.kafka_jars import kafka_jars
from tests.support.ports import HOST, free_port
from tests.support.releases import NEWEST
from tests.support.serve_process import serving
from tests.support.wire import open_wire, produce_frame, request_frame

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(FETCH_TIMEOUT_S)]

GATEWAY = "127.0.0.2"
SHARE_KEY = "group:AAAAAAAAAAAAAAAAAAAABw:0"
KEYS = ((CoordinatorType.GROUP, "group"), (CoordinatorType.TRANSACTION, "transaction"))
BROKER = DescribeConfigsResource(
    resource_type=ConfigResourceType.BROKER, resource_name="1", configuration_keys=None
)
MORE = (
    (
        ApiKey.DESCRIBE_QUORUM,
        range(3),
        bytes.fromhex("02 13") + b"__cluster_metadata" + bytes.fromhex("02 00000000 000000"),
    ),
    # Any pattern, operation and permission.
    (ApiKey.DESCRIBE_ACLS, range(1), bytes.fromhex("01 ffff ffff ffff 01 01")),
    (ApiKey.DESCRIBE_ACLS, range(1, 2), bytes.fromhex("01 ffff 01 ffff ffff 01 01")),
    (ApiKey.DESCRIBE_ACLS, range(2, 4), bytes.fromhex("01 00 01 00 00 01 01 00")),
)
"""Bodies of requests that are more than empty, by api and versions."""
NO_ANSWER_TO_FULL = {ApiKey.ALTER_CONFIGS}
"""Brokers never answer a full request, because they do not know its type of resource."""
ANSWER_LIMIT_S = 20.0
AT_ONCE = 8
REFUSED_BY_KAFKA_4 = {(ApiKey.PRODUCE, version) for version in range(3)}
"""Stated all the same, by brokers and the gateway."""
PRODUCE_BY_ID_SINCE = 13
AT_BROKER = {
    **dict.fromkeys(("METADATA", "FIND_COORDINATOR", "DESCRIBE_CLUSTER", "DESCRIBE_CONFIGS"), 0),
    "DESCRIBE_QUORUM": 2,
    "PRODUCE": 10,
    "SHARE_FETCH": 0,
}
"""The apis whose answers to these requests have addresses there, and from which version on. That of
ShareAcknowledge has some if a leader moves."""
Api = tuple[ApiKey, int]
"""An api in one version."""
Frames = Mapping[Api, Sequence[bytes]]


def meant_for(topic: MetadataResponseTopic) -> Iterator[Struct]:
    """Requests whose answers have addresses, because another broker leads partitions of the
    topic. Each is sent in every version that it can be encoded for."""
    yield MetadataRequest(topics=None)
    yield DescribeConfigsRequest(resources=(BROKER,))
    for kind, key in KEYS:
        yield FindCoordinatorRequest(key=key, key_type=kind)
        yield FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
    yield FindCoordinatorRequest(key_type=2, coordinator_keys=(SHARE_KEY,))
    partitions = tuple(
        FetchPartition(partition_index=index, acknowledgement_batches=())
        for index in range(PARTITIONS)
    )
    yield ShareFetchRequest(
        group_id="share",
        member_id="AAAAAAAAAAAAAAAAAAAABw",
        share_session_epoch=0,
        max_wait_ms=100,
        min_bytes=0,
        max_records=10,
        batch_size=10,
        topics=(FetchTopic(topic_id=topic.topic_id, partitions=partitions),),
        forgotten_topics_data=(),
    )


def frames_of(message: Struct, version: int) -> Iterator[bytes]:
    """The frame of a message, if this version can have it."""
    key = message.SCHEMA.api_key
    assert key is not None
    try:
        yield request_frame(key, version, 7, encode(message, version))
    except WireError:
        return


def one_record() -> bytes:
    """A batch of one record."""
    batch = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1_000)
    batch.append(timestamp=None, key=None, value=b"1")
    batch.close()
    return bytes(batch.buffer())


async def every_frame(releases: Iterable[str], topic: MetadataResponseTopic) -> Frames:
    """An empty request of every api and version of these releases; a full one, if the codecs know
    the api; and those that are meant."""
    frames: defaultdict[Api, list[bytes]] = defaultdict(list)
    sampled = set(APIS) - NO_ANSWER_TO_FULL
    empty: dict[Api, bytes] = {}
    for release in releases:
        for line in await printed_lines("EveryRequest", f"{kafka_jars(release)}/*"):
            number, version_of_api, body = line.split(" ")
            empty[ApiKey(int(number)), int(version_of_api)] = bytes.fromhex(body)
    for (key, version), empty_body in empty.items():
        if key == ApiKey.PRODUCE:  # an empty one wants no answer
            name = topic.topic_id.bytes if version >= PRODUCE_BY_ID_SINCE else TOPIC.encode()
            frames[key, version].append(produce_frame(version, {name: [one_record()] * PARTITIONS}))
            continue
        bodies = [empty_body]
        bodies += [body for api, versions, body in MORE if api == key and version in versions]
        frames[key, version] += [request_frame(key, version, 7, body) for body in bodies]
        if key in sampled and version in APIS[key].versions and (request := APIS[key].request):
            frames[key, version] += frames_of(sample(request, version), version)
        for message in meant_for(topic):
            if message.SCHEMA.api_key == key:
                frames[key, version] += frames_of(message, version)
    return frames


async def answer_to(address: tuple[str, int], frame: bytes) -> bytes:
    """The answer, on a connection of its own; nothing if it ends, as it does upon some malformed
    requests."""
    async with open_wire(address) as wire:
        with trio.fail_after(ANSWER_LIMIT_S):
            await wire.send(frame)
            try:
                return await wire.frame()
            except (EOFError, trio.BrokenResourceError):
                return b""


async def offered_by(address: tuple[str, int]) -> set[Api]:
    """Every api and version that a listener offers."""
    async with await BrokerConnection.open(*address) as connection:
        versions = connection.versions
    return {
        (ApiKey(key), version)
        for key, (low, high) in versions.items()
        for version in range(low, high + 1)
    } - REFUSED_BY_KAFKA_4


async def answers_of(address: tuple[str, int], frames: Frames) -> tuple[set[Api], set[Api]]:
    """The answers to all that a listener offers, and those that have an address of the cluster."""
    answered: set[Api] = set()
    naming: set[Api] = set()
    at_once = trio.CapacityLimiter(AT_ONCE)

    async def ask(api: Api, frame: bytes) -> None:
        async with at_once:
            if answer := await answer_to(address, frame):
                answered.add(api)
                if HOST.encode() in answer:
                    naming.add(api)

    async with trio.open_nursery() as nursery:
        for api in await offered_by(address) & set(frames):
            for frame in frames[api]:
                nursery.start_soon(ask, api, frame)
    return answered, naming


@pytest.mark.parametrize("processes", [1, 2])
async def test_no_answer_names_an_address_of_the_cluster(
    kafka: KafkaCluster, tmp_path: Path, processes: int
) -> None:
    """Whichever listener is asked, of a single gateway or a process of a fleet, it answers in every
    version that it offers. The broker's own answers to the same requests have addresses."""
    async with await BrokerConnection.open(*kafka.addresses[0]) as connection:
        named = MetadataRequestTopic(name=TOPIC)
        (topic,) = (await connection.ask(MetadataRequest(topics=(named,)))).topics
    # The gateway answers versions that an older release does not know, and those that a newer one
    # has dropped.
    frames = await every_frame({kafka.release, NEWEST}, topic)
    flags = [f"--processes={processes}"] if processes > 1 else []
    bootstrap = f"{GATEWAY}:{free_port()}"
    async with serving(kafka.bootstrap_servers, tmp_path, *flags, bootstrap=bootstrap) as gateway:
        if flags:
            await gateway.until_event("fleet_started")
        async with await BrokerConnection.open(*gateway.address) as connection:
            nodes = (await connection.ask(MetadataRequest(topics=()))).brokers
        listeners = [gateway.address, *((node.host, node.port) for node in nodes)]
        assert len(listeners) == 1 + len(kafka.brokers) * (1 + len(flags) * processes)
        for listener in listeners:
            answered, naming = await answers_of(listener, frames)
            assert naming == set()
            assert await offered_by(listener) - answered == set()
    of_interest = {api: sent for api, sent in frames.items() if api[0].name in AT_BROKER}
    there: set[Api] = set()
    at_brokers: set[Api] = set()
    for address in kafka.addresses:
        answered, naming = await answers_of(address, of_interest)
        there |= {api for api in answered if api[1] >= AT_BROKER[api[0].name]}
        at_brokers |= naming
    assert at_brokers == there
