"""What can go wrong in a group: a refusal that Kafka defines, or a rule of our own that broke."""

from enum import IntEnum


class ErrorCode(IntEnum):
    """Kafka's codes that a group operation may answer with (Kafka protocol guide, error codes)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    UNSUPPORTED_VERSION = 35
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    INVALID_REGULAR_EXPRESSION = 128


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


class LongComputation(Exception):  # noqa: N818  (what lies ahead, not what is wrong)
    """The step computes the target of a large group: nothing is decided yet."""


def ensure(condition: bool, broken_rule: str) -> None:
    """Guard a rule that protects data; unlike `assert` it survives `python -O`."""
    if not condition:
        raise InvariantError(broken_rule)
