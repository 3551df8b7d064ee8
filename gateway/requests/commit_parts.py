"""Splits a commit into two parts by topic, and joins the answers to both. Pure."""

from collections.abc import Callable
from dataclasses import replace

from kafka_codecs.declaration import Struct
from kafka_codecs.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kafka_codecs.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

CommitRequest = OffsetCommitRequest | TxnOffsetCommitRequest
CommitResponse = OffsetCommitResponse | TxnOffsetCommitResponse


def split(message: CommitRequest, topics: frozenset[str]) -> tuple[CommitRequest, CommitRequest]:
    """The part about these topics, and the rest."""
    return _only(message, topics.__contains__), _only(message, lambda name: name not in topics)


def _only(message: CommitRequest, wanted: Callable[[str], bool]) -> CommitRequest:
    match message:
        case OffsetCommitRequest():
            return replace(message, topics=tuple(t for t in message.topics if wanted(t.name)))
        case TxnOffsetCommitRequest():
            return replace(message, topics=tuple(t for t in message.topics if wanted(t.name)))


def join_answers(answer: Struct, others: Struct) -> Struct:
    """The answer to both parts. Raises TypeError unless both answer commits of the same api."""
    match answer, others:
        case OffsetCommitResponse(), OffsetCommitResponse():
            return replace(answer, topics=(*answer.topics, *others.topics))
        case TxnOffsetCommitResponse(), TxnOffsetCommitResponse():
            return replace(answer, topics=(*answer.topics, *others.topics))
        case _:
            raise TypeError(f"{answer} and {others} do not answer commits of one api")
