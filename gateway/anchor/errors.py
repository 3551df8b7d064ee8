"""The errors of anchors. Each message is one line for people."""

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
"""The last three: the cluster has no such group any more, or one of the new protocol."""


class AnchorRefused(Exception):
    """Another member is in the group, and it has no protocol in common with the anchor."""


class AnchorDisplaced(Exception):
    """The anchor is no longer in the group, or no longer its only member."""

    def __init__(self, api: str, code: ErrorCode) -> None:
        super().__init__(f"the cluster answered {api} with {code.name}")
        self.is_replaced = code is ErrorCode.FENCED_INSTANCE_ID
        """Replaced by a gateway with the same state log, or by a late request of our own."""


class AnswerLost(Exception):
    """The answer to a commit was lost, so the cluster may still store it."""


class NotAnchored(Exception):
    """The gateway could not hold the group within the time that a client may wait."""


def name_of(error_code: int) -> str:
    """The name of an error code, or its number if it is unknown here."""
    known = error_code in ErrorCode.__members__.values()
    return ErrorCode(error_code).name if known else f"error {error_code}"
