"""What moves cost.

A move that is a fault, or that an operator or a client decides to make, has a price: it uses up a
budget. All others are free.
"""

_PRICES = {
    **{verb: verb for verb in ("start", "crash", "leave", "switch", "commit", "lose", "fail")},
    **{verb: verb for verb in ("late", "slow", "restart", "remove", "intrude")},
    **{verb: verb for verb in ("adopt", "release", "hang-up", "reconfigure", "pause", "sleep")},
    **dict.fromkeys(("lose-answer", "lose-stored", "lose-stray", "land"), "lose"),
    **dict.fromkeys(("late-answer", "delay"), "late"),
    **dict.fromkeys(("fail-answer", "fail-unsure", "fail-after"), "fail"),
    "withdraw": "intrude",
}
BUDGETS = tuple(dict.fromkeys(_PRICES.values()))
"""The names of the budgets."""


def price(move: str) -> str:
    """The budget that a move uses up; empty for a free one."""
    return _PRICES.get(move.partition(" ")[0], "")


def is_fault(move: str) -> bool:
    """Whether the move excuses a rebalance of the consumers behind the gateway."""
    return price(move) not in ("", "adopt", "release", "commit")
