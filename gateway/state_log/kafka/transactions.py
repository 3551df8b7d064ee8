"""Writes batches in transactions, until another gateway takes the log.

The producer has a fixed transactional id, so the next gateway that initialises one fences ours
(KIP-98). Everything here blocks and belongs in one thread at a time.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from gateway.state_log.log import StateLogError, StateLogLost
from gateway.state_log.record_format import Entry

RECORD_BYTES_MAX = 16 << 20
"""The largest record: a classic group with thousands of members is one record."""
BATCH_BYTES_MAX = 1 << 20
"""The largest batch that is sent."""
TRANSACTION_TIMEOUT_MS = 60_000
"""When the cluster aborts a transaction that we left open."""
DELIVERY_TIMEOUT_MS = 5_000
"""After this time a batch has failed, and its clients are told to retry."""
WAIT_SLICE_S = 1.0
"""How often a blocking call checks whether the gateway is exiting."""
FLUSH_RECORDS, FLUSH_BYTES = 1_000, 4 << 20
"""A larger batch is sent in parts, so that none of them waits too long."""


_FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)


class Fenced(Exception):
    """This producer can write nothing more: another one was initialised, or the cluster gave it up.
    Only the log can tell whether the last batch is in it."""


def transactional_id(topic: str, partition: int = 0) -> str:
    """The transactional id of the log's writer. A client that uses it fences the gateway."""
    return f"{topic}-{partition}"


def write_at_once(
    config: Mapping[str, Any], entries: Mapping[int, Sequence[Entry]], *, topic: str
) -> None:
    """Write records, by partition, outside of any transaction, which needs no ownership of the log.

    Raises StateLogError.
    """
    producer = Producer({**config, "delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    failures: list[KafkaError] = []

    def record_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    try:
        for partition, partition_entries in entries.items():
            for entry in partition_entries:
                producer.produce(
                    topic, entry.value, entry.key, partition=partition, on_delivery=record_delivery
                )
        producer.flush()
    except KafkaException as error:
        raise StateLogError(f"the cluster rejects the record: {_reason(error)}") from None
    if failures:
        raise StateLogError(f"the cluster rejects the record: {failures[0].str()}")


class TransactionalWriter:
    """Call `open` first. Unusable after Fenced."""

    def __init__(
        self, config: Mapping[str, Any], *, topic: str, partition: int, record_bytes_max: int
    ) -> None:
        """`record_bytes_max`: the largest record or batch that the topic accepts."""
        self._topic, self._partition = topic, partition
        self._producer = Producer(
            {
                **config,
                "transactional.id": transactional_id(topic, partition),
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "message.max.bytes": RECORD_BYTES_MAX,
                "batch.size": min(BATCH_BYTES_MAX, record_bytes_max),
                "compression.type": "lz4",
                "linger.ms": 0,
                "retry.backoff.ms": 10,
                "retry.backoff.max.ms": 1_000,
            }
        )
        self._must_abort = False
        self._is_closing = threading.Event()
        self._undelivered = 0
        self._last_offset = -1
        self._went_back_to: int | None = None
        self._next_offset: int | None = None
        """The offset of our next record if no other client writes; None if unknown."""
        self._is_claimed = False

    def open(self, timeout_s: float, check: Callable[[], None] = lambda: None) -> None:
        """Fence the previous owner. Its open transaction is committed or aborted when this returns.
        Raises StateLogError, Fenced, and what `check` raises, which is called again and again."""
        give_up_at = time.monotonic() + timeout_s
        while True:
            check()
            try:
                self._producer.init_transactions(WAIT_SLICE_S)
            except KafkaException as error:
                # A missing permission is fatal too, but no reason to retry.
                if error.args[0].code() in _FENCED:
                    raise Fenced(_reason(error)) from None
                if not error.args[0].retriable() or time.monotonic() >= give_up_at:
                    raise StateLogError(
                        f"the cluster does not allow writing: {_reason(error)}"
                    ) from None
            else:
                return

    def write(
        self, entries: Iterable[Entry], others: Mapping[int, Sequence[Entry]] = MappingProxyType({})
    ) -> bool:
        """Write one batch. It is in the log when this returns, with what belongs into `others`, by
        partition. Returns whether another client has written to the log since the previous batch,
        which is how gateways claim it.

        Raises StateLogError if the batch is not in the log, Fenced if that is unknown, StateLogLost
        if this is no longer the log that we wrote before.
        """
        try:
            self._abort_open_transaction()
            self._producer.begin_transaction()
            self._must_abort = True
            self._undelivered = 0
            self._is_claimed = False
            unsent_bytes = 0
            for partition, batch in ((self._partition, entries), *others.items()):
                for entry in batch:
                    self._undelivered += 1
                    unsent_bytes += len(entry.key) + len(entry.value or b"")
                    self._producer.produce(
                        self._topic,
                        entry.value,
                        entry.key,
                        partition=partition,
                        on_delivery=self._check_offset,
                    )
                    if unsent_bytes >= FLUSH_BYTES or self._undelivered >= FLUSH_RECORDS:
                        self._producer.flush()
                        unsent_bytes = 0
        except (KafkaException, BufferError) as error:
            _give_up_if_fatal(error)
            raise StateLogError(f"the cluster rejects the batch: {_reason(error)}") from None
        self._commit()
        if self._went_back_to is not None:
            raise StateLogLost(
                f"topic {self._topic} was deleted or truncated while it was written: record"
                f" {self._went_back_to} is no longer the last, so it is no longer the log of the"
                " groups. Delete it; its groups are then forgotten, and their members rejoin"
            )
        return self._is_claimed

    def close(self) -> None:
        """Make blocking calls return soon. Callable from any thread."""
        self._is_closing.set()

    def _check_offset(self, error: KafkaError | None, message: Message) -> None:
        """Detect other writers and lost data. Offsets increase, unless the topic was recreated or a
        broker lost its end. They increase by one, unless another client writes."""
        if error is not None:
            return
        self._undelivered -= 1
        if message.partition() != self._partition:
            return
        offset = message.offset()
        if offset is None or offset < 0:  # a duplicate may have no offset
            self._next_offset = None
            return
        if offset <= self._last_offset and self._went_back_to is None:
            self._went_back_to = self._last_offset
        if self._next_offset is not None and offset > self._next_offset:
            self._is_claimed = True
        self._last_offset, self._next_offset = offset, offset + 1

    def _abort_open_transaction(self) -> None:
        """Abort the transaction of a batch that failed before its commit."""
        if self._must_abort:
            self._producer.abort_transaction(WAIT_SLICE_S)
            self._must_abort = False
            self._next_offset = None  # unknown how many of its records are in the topic

    def _commit(self) -> None:
        """Commit, retrying until there is an answer: the outcome must not stay in doubt."""
        while not self._is_closing.is_set():
            try:
                self._producer.commit_transaction(WAIT_SLICE_S)
            except KafkaException as error:
                _give_up_if_fatal(error)
                # A commit is sent only after all records were delivered.
                if error.args[0].txn_requires_abort() and self._undelivered:
                    raise StateLogError(
                        f"the cluster rejects the batch: {_reason(error)}"
                    ) from None
                if not error.args[0].retriable():
                    raise Fenced(_reason(error)) from None
            else:
                self._must_abort = False
                if self._next_offset is not None:
                    self._next_offset += 1  # the commit marker takes an offset too
                return
        raise Fenced("the gateway is exiting")


def _give_up_if_fatal(error: BaseException) -> None:
    if isinstance(error, KafkaException) and error.args[0].fatal():
        raise Fenced(_reason(error)) from None


def _reason(error: BaseException) -> str:
    cause = error.args[0] if error.args else error
    return str(cause.str()) if isinstance(cause, KafkaError) else str(cause)
