"""No client, and no broker that loads, floods the log or the events of `groupferry serve`."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import trio

from gateway.demo import mock_cluster
from gateway.journal.line_files import FOLDER_NAME, PATTERN
from kafka_codecs import decode
from kafka_codecs.apis import ApiKey
from kafka_codecs.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kafka_codecs.declaration import Struct
from kafka_codecs.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kafka_codecs.error_codes import ErrorCode
from kafka_codecs.header import RequestHeader
from kafka_codecs.heartbeat import HeartbeatRequest
from tests.support.fake_broker import answer, running_fake_broker
from tests.support.group_requests import join_request
from tests.support.guarded_broker import GuardedBroker
from tests.support.serve_process import ServeProcess, serving
from tests.support.wire import Wire, open_wire

TOPIC = "numbers"
LIMIT_S = 60
TIMES = 300


def native_join(group_id: str, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """The join of a consumer with the new protocol."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=(TOPIC,),
        topic_partitions=(),
    )


def events(state: Path) -> Counter[str]:
    """The events in the state folder by name."""
    names: Counter[str] = Counter()
    for path in (state / FOLDER_NAME).glob(PATTERN):
        names.update(json.loads(line)["event"] for line in path.read_text().splitlines())
    return names


def kinds(gateway: ServeProcess) -> Counter[str]:
    """The lines of the log by name."""
    return Counter(line["event"] for line in gateway.log)


async def test_a_client_that_is_refused_floods_neither_log_nor_events(tmp_path: Path) -> None:
    """A client may send what it likes, as often as it likes."""
    floods: list[tuple[Struct, int]] = [
        (join_request("g", [TOPIC]), 5),  # is told to come back with an id, and never does
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="stranger"), 3),
        (ConsumerGroupHeartbeatRequest(group_id="g", member_id="stranger", member_epoch=7), 1),
    ]
    async with trio.open_nursery() as nursery:
        bootstrap = await nursery.start(partial(mock_cluster.run, topic=TOPIC, partitions=4))
        with trio.fail_after(LIMIT_S):
            async with (
                serving(bootstrap, tmp_path) as gateway,
                open_wire(gateway.address) as wire,
            ):
                await wire.ask(native_join("g", "member"), 1)
                await gateway.until_event("member_joined")
                lines, before = len(gateway.log), events(tmp_path).total()
                for message, version in floods:
                    for _ in range(TIMES):
                        await wire.ask(message, version)
                assert events(tmp_path).total() <= before + 10, events(tmp_path)
                assert len(gateway.log) <= lines + 10, kinds(gateway)
                await gateway.terminate()
        nursery.cancel_scope.cancel()


async def test_a_coordinator_that_loads_is_one_condition(tmp_path: Path) -> None:
    """Any number of waiting groups is one condition. The number is logged at the end of the
    process."""
    broker = GuardedBroker()

    async def loading(wire: Wire, header: RequestHeader, body: bytes) -> None:
        request = decode(DescribeGroupsRequest, body, header.api_version)
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        groups = tuple(DescribedGroup(group_id=name, error_code=code) for name in request.groups)
        await answer(wire, header, DescribeGroupsResponse(groups=groups))

    broker.handlers[ApiKey.DESCRIBE_GROUPS] = loading
    with trio.fail_after(LIMIT_S):
        async with running_fake_broker(broker):
            upstream = f"{broker.address[0]}:{broker.address[1]}"
            async with serving(upstream, tmp_path) as gateway, open_wire(gateway.address) as wire:
                for number in range(TIMES):
                    refused = await wire.ask(native_join(f"g{number}", "member"), 1)
                    assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                assert kinds(gateway)["group_state_unknown"] == 1
                await gateway.terminate()
                unknown = [line for line in gateway.log if line["event"] == "group_state_unknown"]
                assert [line.get("more") for line in unknown] == [None, TIMES - 1]
                rest = kinds(gateway) - Counter({"client_seen": TIMES, "group_state_unknown": 2})
                assert rest.total() < 20, rest


async def test_a_restart_repeats_no_events(tmp_path: Path) -> None:
    """This holds after an ordinary end and after a SIGKILL: the files have them all. Each start
    states the groups with members that it hosts."""
    async with trio.open_nursery() as nursery:
        bootstrap = await nursery.start(partial(mock_cluster.run, topic=TOPIC, partitions=4))
        with trio.fail_after(LIMIT_S):
            async with (
                serving(bootstrap, tmp_path) as gateway,
                open_wire(gateway.address) as wire,
            ):
                for number in range(50):
                    joined = await wire.ask(native_join(f"g{number}", "member"), 1)
                    assert joined.error_code == ErrorCode.NONE
                await gateway.terminate()
            before = events(tmp_path)
            for _ in range(2):
                async with serving(bootstrap, tmp_path):
                    pass
        nursery.cancel_scope.cancel()
    after = events(tmp_path)
    assert before["member_joined"] == 50
    grown = {name for name in after if after[name] != before[name]}
    stated = {"hosting_started", "group_loaded", "readiness_changed"}
    assert grown - stated == {"gateway_started"}
