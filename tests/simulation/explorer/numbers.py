"""Where the numbers of a small world begin, so that a number says what it is."""

from gateway.hosting.identity import INSTANCE_ID

GROUP = "orders-readers"
LOG_ID = "log-1"
FIRST_EPOCH = 5_000_000
"""The first generation of a group that the gateway hosts from the beginning."""
FIRST_GENERATION = 10_000_000
"""The first one of the group in the cluster."""
OFFSETS_APART = 100_000_000
"""The committed offset of partition n begins at (n + 2) times this, so that an offset also
identifies its partition."""
FIRST_TOKEN = 1_000_000_000
START_MS = 1_600_000_000_000


def is_anchor(member_id: str) -> bool:
    """Whether a member is the gateway's anchor."""
    return member_id.startswith(f"{INSTANCE_ID}-")
