"""A plug-in that is written from the documentation alone, behind `groupferry serve`."""

import re
from functools import partial
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer

import gateway
from tests.support.mock_cluster import running_mock_cluster
from tests.support.plug_ins import install
from tests.support.serve_process import serving

PAGE = Path(gateway.__file__).parent / "docs" / "plug-ins.md"
TOPICS = ("bar", "foo", "zar")
PARTITIONS = 4
LIMIT_S = 90


def example(language: str) -> str:
    """The only example of the page in this language."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(code)


def topics_of(consumer: Consumer) -> dict[str, int]:
    """How many partitions of each topic the consumer has, after a poll."""
    consumer.poll(0.1)
    topics = [partition.topic for partition in consumer.assignment()]
    return {topic: topics.count(topic) for topic in topics}


async def test_the_example_of_the_documentation_keeps_topics_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three topics, two consumers that ask for it by name, and no topic is split."""
    source = example("python")
    assert len(source.splitlines()) <= 20
    assert '[project.entry-points."groupferry.assignors"]\nwhole-topics = ' in example("toml")
    (packages := tmp_path / "packages").mkdir()
    install(packages, {"whole-topics": source}, monkeypatch)
    flag = "--group-consumer-assignors=uniform,whole-topics"
    with trio.fail_after(LIMIT_S):
        async with running_mock_cluster(1) as upstream:
            for topic in TOPICS:
                await upstream.create_topic(topic, PARTITIONS)
            async with serving(upstream.bootstrap_servers, tmp_path / "state", flag) as served:
                settings = {
                    "bootstrap.servers": served.bootstrap,
                    "group.id": "orders",
                    "group.protocol": "consumer",
                    "group.remote.assignor": "whole-topics",
                }
                consumers = [Consumer(settings) for _ in range(2)]
                for consumer in consumers:
                    consumer.subscribe(list(TOPICS))
                shares: list[dict[str, int]] = []
                while sorted(map(len, shares)) != [1, 2]:
                    polls = [partial(topics_of, consumer) for consumer in consumers]
                    shares = [await trio.to_thread.run_sync(poll) for poll in polls]
                assert {**shares[0], **shares[1]} == dict.fromkeys(TOPICS, PARTITIONS)
                for consumer in consumers:
                    await trio.to_thread.run_sync(consumer.close)
    assert {line["assignor"] for line in served.events("target_computed")} == {"whole-topics"}
