"""The room for long requests."""

import pytest

from gateway.data_path.config import Limits
from gateway.data_path.errors import TooMuchHeld
from gateway.data_path.held_requests import HeldRequests
from gateway.quotas.quota_key import QuotaKey

ALICE, MALLORY = QuotaKey("alice", is_principal=True), QuotaKey("mallory", is_principal=True)
SOMEWHERE = QuotaKey("10.0.0.1")


def test_one_owner_leaves_room_for_others() -> None:
    """The owner may have any number of connections."""
    held = HeldRequests(Limits(max_held_requests_bytes=100))
    held.take(MALLORY, 30)
    held.take(MALLORY, 20)
    with pytest.raises(
        TooMuchHeld, match="long requests and answers of the user mallory may take 50 bytes"
    ):
        held.take(MALLORY, 1)
    held.take(ALICE, 25)
    with pytest.raises(TooMuchHeld, match="long requests and answers of all clients take 75 bytes"):
        held.take(SOMEWHERE, 26)


def test_an_answered_request_makes_room() -> None:
    """The space is free for its owner and for all. A refused request had taken none."""
    held = HeldRequests(Limits(max_held_requests_bytes=100))
    held.take(ALICE, 50)
    with pytest.raises(TooMuchHeld):
        held.take(ALICE, 1)
    held.give_back(ALICE, 50)
    assert held.count_bytes == 0
    held.take(ALICE, 50)
    assert held.count_bytes == 50
