"""What the cluster may say against an anchor. Each message is one line, fit for a person."""

from kafka_codecs.error_codes import ErrorCode

ABOUT_THE_ANCHOR = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""The last three: where our group was there is none, or one of the new protocol."""


class AnchorRefused(Exception):
    """Somebody else is in the group, with whom we have no protocol in common."""


class AnchorDisplaced(Exception):
    """The member that we were is no longer in the group, or no longer alone."""

    def __init__(self, api: str, code: ErrorCode) -> None:
        super().__init__(f"the cluster answered {api} with {code.name}")
        self.is_replaced = code is ErrorCode.FENCED_INSTANCE_ID
        """By whoever has the same state log, or by a request of our own that came late."""


class AnswerLost(Exception):
    """The cluster may still store a commit of which nobody will know."""


class NotAnchored(Exception):
    """The group is not held, and has not been for as long as a client may be kept waiting."""


def name_of(error_code: int) -> str:
    """For people, who may look up in Kafka's protocol guide those that we have no name for."""
    known = error_code in ErrorCode.__members__.values()
    return ErrorCode(error_code).name if known else f"error {error_code}"
