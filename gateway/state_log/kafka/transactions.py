"""Writes batches in transactions, until another gateway takes the log.

The producer has a fixed transactional id, so the next gateway that initialises one fences ours
(KIP-98). Everything here blocks and belongs in one thread at a time.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from gateway.state_log.log import StateLogError, StateLogUnusable
from gateway.state_log.record_format import Entry

RECORD_BYTES_MAX = 16 << 20
"""Of one record: a classic group of thousands of members is a single one."""
BATCH_BYTES_MAX = 1 << 20
"""Of what is sent at once."""
TRANSACTION_TIMEOUT_MS = 60_000
"""When the cluster gives up a transaction that we left open."""
DELIVERY_TIMEOUT_MS = 5_000
"""Then the batch has failed: whoever waits for it is told to try again."""
WAIT_SLICE_S = 1.0
"""How long a call goes on before it is seen whether the gateway ends."""


_FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)


class Fenced(Exception):
    """Nothing more can be written with this producer: somebody initialised another one, or the
    cluster gave up on us. Whether the last batch is in the log is for the log to say."""


def transactional_id(topic: str, partition: int = 0) -> str:
    """The one of whoever writes the log: with it anybody could fence us."""
    return f"{topic}-{partition}"


def write_at_once(config: Mapping[str, Any], entry: Entry, *, topic: str, partition: int) -> None:
    """Write a record outside of every transaction, which nobody can be kept from.

    Raises StateLogError.
    """
    producer = Producer({**config, "delivery.timeout.ms": DELIVERY_TIMEOUT_MS})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    try:
        producer.produce(topic, entry.value, entry.key, partition=partition, on_delivery=delivered)
        producer.flush()
    except KafkaException as error:
        raise StateLogError(f"the cluster does not take it: {_reason(error)}") from None
    if failures:
        raise StateLogError(f"the cluster does not take it: {failures[0].str()}")


class TransactionalWriter:
    """`open` first. After Fenced it is of no more use."""

    def __init__(
        self, config: Mapping[str, Any], *, topic: str, partition: int, record_bytes_max: int
    ) -> None:
        """`record_bytes_max`: what the topic takes at once, be it a record or a batch of them."""
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
        """Of our next record, if nobody else writes; None while that is not known."""
        self._is_claimed = False

    def open(self, timeout_s: float) -> None:
        """Fence whoever had the log; what he left unfinished is finished or undone when this
        returns. Raises StateLogError, Fenced."""
        try:
            self._producer.init_transactions(timeout_s)
        except KafkaException as error:
            # A missing right is fatal too, but no reason to try until somebody else is done.
            if error.args[0].code() in _FENCED:
                raise Fenced(_reason(error)) from None
            raise StateLogError(f"the cluster does not let us write: {_reason(error)}") from None

    def write(self, entries: Iterable[Entry]) -> bool:
        """Write one batch; it is in the log when this returns. True if somebody else has written
        there since the batch before: that is how the log is claimed.

        Raises StateLogError if it is not in the log, Fenced if that is not known, StateLogUnusable
        if this is not the log that we wrote before.
        """
        try:
            self._abort_what_is_left()
            self._producer.begin_transaction()
            self._must_abort = True
            self._undelivered = 0
            self._is_claimed = False
            for entry in entries:
                self._undelivered += 1
                self._producer.produce(
                    self._topic,
                    entry.value,
                    entry.key,
                    partition=self._partition,
                    on_delivery=self._check_offset,
                )
        except (KafkaException, BufferError) as error:
            _give_up_if_fatal(error)
            raise StateLogError(f"the cluster does not take it: {_reason(error)}") from None
        self._commit()
        if self._went_back_to is not None:
            raise StateLogUnusable(
                f"topic {self._topic} was deleted or cut while it was written, record"
                f" {self._went_back_to} is no longer the last: it is not the log of the groups any"
                " more. Delete it; its groups are forgotten then, and their members join anew"
            )
        return self._is_claimed

    def close(self) -> None:
        """From any thread: let no call go on for long."""
        self._is_closing.set()

    def _check_offset(self, error: KafkaError | None, message: Message) -> None:
        """Offsets only grow, unless the topic is made anew or a broker loses the end of it; and
        they grow by one, unless somebody else writes."""
        if error is not None:
            return
        self._undelivered -= 1
        offset = message.offset()
        if offset is None or offset < 0:  # a repetition may have none
            self._next_offset = None
            return
        if offset <= self._last_offset and self._went_back_to is None:
            self._went_back_to = self._last_offset
        if self._next_offset is not None and offset > self._next_offset:
            self._is_claimed = True
        self._last_offset, self._next_offset = offset, offset + 1

    def _abort_what_is_left(self) -> None:
        """Of a batch that failed before its commit was sent."""
        if self._must_abort:
            self._producer.abort_transaction(WAIT_SLICE_S)
            self._must_abort = False
            self._next_offset = None  # nobody tells how much of it is in the topic

    def _commit(self) -> None:
        """Ask until there is an answer: the outcome of a commit may not stay in doubt."""
        while not self._is_closing.is_set():
            try:
                self._producer.commit_transaction(WAIT_SLICE_S)
            except KafkaException as error:
                _give_up_if_fatal(error)
                # A commit is only sent once all records are delivered.
                if error.args[0].txn_requires_abort() and self._undelivered:
                    raise StateLogError(f"the cluster does not take it: {_reason(error)}") from None
                if not error.args[0].retriable():
                    raise Fenced(_reason(error)) from None
            else:
                self._must_abort = False
                if self._next_offset is not None:
                    self._next_offset += 1  # the commit takes one, too
                return
        raise Fenced("the gateway ends")


def _give_up_if_fatal(error: BaseException) -> None:
    if isinstance(error, KafkaException) and error.args[0].fatal():
        raise Fenced(_reason(error)) from None


def _reason(error: BaseException) -> str:
    cause = error.args[0] if error.args else error
    return str(cause.str()) if isinstance(cause, KafkaError) else str(cause)
