"""Host names for brokers. With TLS one port can serve all of them, because a client says which host
it wants (SNI, RFC 6066)."""

import re
from dataclasses import dataclass

NODE_ID = "$(id)"
"""Stands for the broker's node id in a pattern."""

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NODE_ID = "0|[1-9][0-9]{0,9}"
HOST_LENGTH_MAX = 253


@dataclass(frozen=True, slots=True)
class BrokerNames:
    """Names such as `broker-$(id).gateway.example`."""

    pattern: str

    @staticmethod
    def check(pattern: str) -> str:
        """The pattern in lower case. Raises ValueError unless it makes one host name per broker."""
        lower = pattern.lower()
        longest = lower.replace(NODE_ID, str(2**31 - 1))
        if lower.count(NODE_ID) != 1 or not _HOST.fullmatch(longest):
            raise ValueError(f"{pattern}: give a host name with one {NODE_ID} for the broker's id")
        if len(longest) > HOST_LENGTH_MAX:
            raise ValueError(f"{pattern}: a host name has at most {HOST_LENGTH_MAX} characters")
        return lower

    def host_of(self, node_id: int) -> str:
        """The broker's host name."""
        return self.pattern.replace(NODE_ID, str(node_id))

    def node_of(self, host: str | None) -> int | None:
        """The broker with this host name; None if the pattern makes no such name."""
        before, _, after = map(re.escape, self.pattern.partition(NODE_ID))
        match = re.fullmatch(f"{before}({_NODE_ID}){after}", (host or "").lower())
        return int(match[1]) if match else None
