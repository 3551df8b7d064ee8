"""Members with the largest possible assignments, with the log of `groupferry serve`. The log stores
lines that exceed a Kafka string."""

from pathlib import Path

import pytest
import trio

from gateway.state_log.sqlite import open_sqlite_log
from kafka_codecs.error_codes import ErrorCode
from tests.support.event_lines import check_gaps, read_events
from tests.support.gateway import whole_gateway
from tests.support.group_client import group_client
from tests.support.mock_cluster import running_mock_cluster
from tests.support.serve_process import serving

LIMIT_S = 150


async def test_a_member_may_own_thousands_of_partitions_or_topics(tmp_path: Path) -> None:
    """The member joins, the gateway is killed, and the member continues and leaves. Its events are
    lines of more than 32,767 bytes, which the log stores unchanged."""
    many = tuple(f"{number:04}-{'x' * 35}" for number in range(1_000))
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as upstream:
            await upstream.create_topic("wide", 10_000)
            for topic in many:
                await upstream.create_topic(topic, 1)
            cases = {"wide": (("wide",), 10_000), "many": (many, 1_000)}
            epochs: dict[str, int] = {}
            async with serving(upstream.bootstrap_servers, tmp_path) as gateway:
                for group, (topics, expected) in cases.items():
                    async with group_client(gateway.address, group) as client:
                        joined = await client.native("m", topics=topics)
                        assert joined.error_code == 0, joined.error_message
                        assert joined.assignment is not None
                        given = joined.assignment.topic_partitions
                        assert sum(len(topic.partitions) for topic in given) == expected
                        epochs[group] = joined.member_epoch
                await gateway.kill()
            async with serving(upstream.bootstrap_servers, tmp_path) as gateway:
                for group, epoch in epochs.items():
                    async with group_client(gateway.address, group) as client:
                        assert (await client.native("m", epoch)).error_code == 0
                        assert (await client.native("m", -1)).error_code == 0
                assert await gateway.terminate() == 0
    lines = read_events(tmp_path / "events")
    check_gaps(lines)
    for name in ("partitions_assigned", "grant_ended"):
        sizes = [len(line.line) for line in lines if line.event == name]
        assert len(sizes) == len(cases)
        assert min(sizes) > 1 << 15


@pytest.mark.parametrize("version", [3, 5])
async def test_a_name_too_long_for_a_member_id_is_refused(tmp_path: Path, version: int) -> None:
    """The client gets an answer, because neither another answer nor the group's record could
    contain the name."""
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as upstream, open_sqlite_log(tmp_path) as log:
            await upstream.create_topic("numbers", 3)
            async with (
                whole_gateway(upstream.bootstrap, state_log=log) as gateway,
                group_client(gateway.address, "g", client_id="c" * 0x7FFF) as client,
                group_client(gateway.address, "g") as other,
            ):
                refused = await client.join(version=version)
                assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
                await other.enter(version=version)
