"""Commands to a running gateway and their answers. Each is one line of JSON at the socket."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

GROUP_ID_BYTES_MAX = 32_767
"""The most that a Kafka request can carry."""
COMMAND_BYTES_MAX = 6 * GROUP_ID_BYTES_MAX + 1024
"""A line with a command. JSON may write a character in six bytes."""
REASONS_MAX = 200
"""Reasons in an answer. A large group may have one for each member."""
REASON_CHARS_MAX = 500
"""The length of a reason. Clients choose the ids in it, up to 32 KiB each."""
ANSWER_BYTES_MAX = COMMAND_BYTES_MAX + 6 * (REASONS_MAX + 1) * (REASON_CHARS_MAX + 2)
"""A line with an answer."""


class CommandRefused(Exception):
    """The command had no effect; the message says why and what to do, in one line."""


class _Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Adopt(_Message):
    """Take over a live group from the cluster, without a rebalance."""

    command: Literal["adopt"] = "adopt"
    group_id: Annotated[str, Field(min_length=1, max_length=GROUP_ID_BYTES_MAX)]
    dry_run: bool = False
    """Only say whether the group can be adopted."""


class Adoption(_Message):
    """What became of an adoption, or would become of it."""

    kind: Literal["adoption"] = "adoption"
    group_id: str
    is_adopted: bool
    """Whether the group is hosted now, because it was adopted."""
    reasons: tuple[str, ...] = ()
    """Why it was not, or cannot be, mostly one for each member. None after a dry run: it can."""
    held_ms: int | None = None
    """For how long calls of the group were held; None if they were not."""


class Refusal(_Message):
    """The command had no effect."""

    kind: Literal["refusal"] = "refusal"
    why: str


Command = Adopt
Answer = Adoption | Refusal

COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
ANSWERS: TypeAdapter[Answer] = TypeAdapter(Annotated[Answer, Field(discriminator="kind")])
