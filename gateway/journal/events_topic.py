"""Writes the lines of the events to a topic of the cluster.

Owns the producer and its buffer. Once open, it never blocks and never fails: it counts and drops
lines that the cluster does not accept in time or that do not fit into the buffer. The event files
still have them.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
import trio
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from gateway.cluster.access import PLAIN_ACCESS, Access
from gateway.cluster.broker_connection import Address
from gateway.cluster.librdkafka import client_config
from gateway.cluster.own_topics import made_or_found

CLIENT_ID = "groupferry-events"
PARTITIONS = 6
"""Partitions of a topic that the gateway creates. A group's events share one."""
BUFFER_LINES_MAX = 100_000
BUFFER_KIB_MAX = 64 << 10
DELIVERY_TIMEOUT_MS = 120_000
"""How long a buffered line waits for the cluster."""
LOOK_INTERVAL_S = 0.5
CLOSE_TIMEOUT_S = 5.0
"""How long the gateway waits for the last lines when it exits."""

log = structlog.get_logger()


class EventsTopicError(Exception):
    """The topic cannot be used. The message is one line."""


class EventsTopicWriter:
    """`write` sends lines; `run` polls for their delivery reports."""

    def __init__(self, config: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                **config,
                "acks": "all",
                # Retries keep the order, but may duplicate lines.
                "max.in.flight.requests.per.connection": 1,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "queue.buffering.max.messages": BUFFER_LINES_MAX,
                "queue.buffering.max.kbytes": BUFFER_KIB_MAX,
                "compression.type": "lz4",
                "linger.ms": 50,
            }
        )
        self.lost = 0
        """Lines dropped since the last recovery."""
        self._is_taken = True
        """Whether the cluster has accepted a line since the last drop."""

    def write(self, lines: Sequence[str], group_id: str | None) -> None:
        """Send lines about a group, or about the gateway, in this order."""
        key = None if group_id is None else group_id.encode()
        for line in lines:
            try:
                self._producer.produce(
                    self._topic, line.encode(), key, on_delivery=self._record_delivery
                )
            except BufferError:
                self._lose("too many lines are waiting for the cluster")
            except KafkaException as error:
                self._lose(error.args[0].str())
        self._producer.poll(0)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await trio.sleep(LOOK_INTERVAL_S)
            self._producer.poll(0)
            if self.lost and self._is_taken and not len(self._producer):
                log.info("events_topic_back", topic=self._topic, lost=self.lost)
                self.lost = 0

    async def close(self) -> None:
        """Wait up to CLOSE_TIMEOUT_S for the last lines."""
        left = await trio.to_thread.run_sync(
            self._producer.flush, CLOSE_TIMEOUT_S, abandon_on_cancel=True
        )
        self.lost += left
        if self.lost:
            log.error("events_topic_left", topic=self._topic, lost=self.lost)

    def _record_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self._is_taken = True
        else:
            self._lose(error.str())

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self._is_taken = False
        if self.lost == 1:
            log.error("events_topic_lost", topic=self._topic, reason=reason)


@asynccontextmanager
async def open_events_topic(
    upstream: Sequence[Address], topic: str, access: Access = PLAIN_ACCESS
) -> AsyncIterator[EventsTopicWriter]:
    """Create the topic if it is missing, and write to it until the block ends.

    Raises EventsTopicError if the topic cannot be used, or is compacted.
    """
    config = client_config(upstream, CLIENT_ID, access)
    await trio.to_thread.run_sync(_make_or_check, config, topic, abandon_on_cancel=True)
    events = EventsTopicWriter(config, topic)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(events.run)
            yield events
            nursery.cancel_scope.cancel()
    finally:  # as if another gateway has taken the state log
        await events.close()


def _make_or_check(config: Mapping[str, Any], topic: str) -> None:
    try:
        settings = {"cleanup.policy": "delete"}
        configs = made_or_found(config, topic, partitions=PARTITIONS, settings=settings)
    except KafkaException as error:
        raise EventsTopicError(f"topic {topic}: {error.args[0].str()}") from None
    if "compact" in configs["cleanup.policy"]:
        raise EventsTopicError(
            f"topic {topic} has cleanup.policy={configs['cleanup.policy']}, which keeps only the"
            " last event of each group: set it to delete, or name another topic with --events-topic"
        )
