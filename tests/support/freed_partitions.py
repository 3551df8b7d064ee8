"""Finds the partitions that a group freed because their member stated that it did not own them, and
then took them all the same (rule 3.7). A broker frees them too."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

_ABOUT_PARTITIONS = {"partitions_assigned", "partitions_stated", "grant_ended"}


def freed_before_taken(log: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, int]]:
    """The client ids and partitions, from the lines of a gateway that logs on level debug. The
    member had stated no assignment with the partition since it was assigned."""
    client_ids: dict[str, str] = {}
    unstated: defaultdict[str, set[int]] = defaultdict(set)
    disowned: defaultdict[str, set[int]] = defaultdict(set)
    freed: set[tuple[str, int]] = set()
    for line in log:
        if line["event"] == "member_joined":
            client_ids[line["member_id"]] = line["client_id"]
        if line["event"] not in _ABOUT_PARTITIONS:
            continue
        member_id = line["member_id"]
        numbers = {number for indexes in line["partitions"].values() for number in indexes}
        if line["event"] == "partitions_assigned":
            unstated[member_id] |= numbers
            disowned[member_id] -= numbers
        elif line["event"] == "partitions_stated":
            unstated[member_id] -= numbers
            disowned[member_id] = set(unstated[member_id])
        elif line["event"] == "grant_ended":
            client_id = client_ids.get(member_id, "")
            freed |= {(client_id, number) for number in numbers & disowned[member_id]}
            unstated[member_id] -= numbers
            disowned[member_id] -= numbers
    return frozenset(freed)
