"""Errors of a group: a refusal that Kafka defines, or a broken rule of the engine."""

from kafka_codecs.error_codes import ErrorCode


class GroupError(Exception):
    """A refused request: it is answered with `code`, writes no record and changes nothing.

    `reason` is for people (the heartbeat's error message, the log). A JoinGroup response echoes
    `member_id`.
    """

    def __init__(self, code: ErrorCode, reason: str, *, member_id: str = "") -> None:
        super().__init__(f"{code.name}: {reason}")
        self.code = code
        self.reason = reason
        self.member_id = member_id


class InvariantError(Exception):
    """A rule of the engine itself broke. The driver stops the group and reloads it from the log."""


class LongComputation(Exception):
    """The step would compute the target of a large group. It has decided nothing yet."""


def ensure(condition: bool, broken_rule: str) -> None:
    """Guard a rule that protects data. Unlike `assert`, it survives `python -O`."""
    if not condition:
        raise InvariantError(broken_rule)
