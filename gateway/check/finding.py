"""What one trial has shown, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class Result(StrEnum):
    """How a trial ended."""

    WORKS = "works"
    LIMITED = "limited"
    """The gateway does without it, at a cost."""
    FAILS = "fails"
    """The gateway cannot host groups, or not with these settings."""
    UNKNOWN = "not tried"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the check."""

    subject: str
    """What was tried."""
    result: Result
    detail: str
    """What was seen."""
    effect: str = ""
    """What it costs; empty if it works."""
    remedy: str = ""
    """What to grant or to set; empty if nothing helps or nothing is wrong."""


def works(subject: str, detail: str) -> Finding:
    """A trial that went well."""
    return Finding(subject=subject, result=Result.WORKS, detail=detail)
