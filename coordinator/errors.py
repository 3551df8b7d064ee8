"""What can go wrong in a group: a refusal that Kafka defines, or a rule of our own that broke."""

from kafka_codecs.error_codes import ErrorCode


class GroupError(Exception):
    """A refusal: the request is answered with `code`, no record is written, nothing changes.

    `why` is for people (the heartbeat's error message, the log). `member_id` is what a JoinGroup
    answer echoes.
    """

    def __init__(self, code: ErrorCode, why: str, *, member_id: str = "") -> None:
        super().__init__(f"{code.name}: {why}")
        self.code = code
        self.why = why
        self.member_id = member_id


class InvariantError(Exception):
    """A rule of the engine itself broke: the group stops and is loaded again from its records."""


class LongComputation(Exception):
    """The step computes the target of a large group: nothing is decided yet."""


def ensure(condition: bool, broken_rule: str) -> None:
    """Guard a rule that protects data; unlike `assert` it survives `python -O`."""
    if not condition:
        raise InvariantError(broken_rule)
