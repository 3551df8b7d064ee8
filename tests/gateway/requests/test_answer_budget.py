"""The size limit of an answer about many groups, checked before the answer is built."""

from functools import partial

import pytest

from gateway.data_path.config import Limits
from gateway.data_path.entries import bytes_of
from gateway.data_path.held_requests import HeldRequests
from gateway.quotas.quota_key import QuotaKey
from gateway.requests import answer_budget
from gateway.requests.answer_budget import TOO_LONG, AnswerBudget
from kafka_codecs.describe_groups import DescribedGroup, DescribedGroupMember
from kafka_codecs.error_codes import ErrorCode


def described_group(group_id: str, *, user_data_bytes: int) -> DescribedGroup:
    """A group with one member."""
    member = DescribedGroupMember(
        member_id="m",
        client_id="c",
        client_host="/",
        member_metadata=bytes(user_data_bytes),
        member_assignment=b"",
    )
    return DescribedGroup(
        group_id=group_id, protocol_type="consumer", protocol_data="", members=(member,)
    )


def take_part(budget: AnswerBudget, part: DescribedGroup) -> bool:
    """Whether a part fits."""
    budget.take(part)
    return budget.refusal is None


def test_parts_are_taken_exactly_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All parts of the answer count together."""
    parts = [described_group(group_id, user_data_bytes=1_000) for group_id in ("a", "b")]
    needed = sum(bytes_of(part, 10_000) for part in parts)
    monkeypatch.setattr(answer_budget, "ANSWER_BYTES_MAX", needed)
    budget = AnswerBudget(hold=lambda _: None)
    assert [take_part(budget, part) for part in parts] == [True, True]

    monkeypatch.setattr(answer_budget, "ANSWER_BYTES_MAX", needed - 1)
    budget = AnswerBudget(hold=lambda _: None)
    assert [take_part(budget, part) for part in parts] == [True, False]
    assert budget.refusal == (ErrorCode.UNKNOWN_SERVER_ERROR, TOO_LONG)


def test_no_part_is_taken_after_one_that_did_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which parts are missing must not depend on their sizes."""
    monkeypatch.setattr(answer_budget, "ANSWER_BYTES_MAX", 1_000)
    budget = AnswerBudget(hold=lambda _: None)
    assert not take_part(budget, described_group("large", user_data_bytes=5_000))
    assert not take_part(budget, described_group("small", user_data_bytes=0))


def test_long_answers_of_all_clients_have_a_total() -> None:
    """One client gets no more than its share, however many requests it sends; it may ask again
    when the others are answered."""
    held = HeldRequests(Limits(max_held_requests_bytes=3_000_000))
    hold = partial(held.take, QuotaKey("10.0.0.1"))
    budgets = [AnswerBudget(hold) for _ in range(9)]
    part = described_group("g", user_data_bytes=100_000)
    fits = [take_part(budget, part) for budget in budgets]
    assert fits == [True] * 3 + [False] * 6
    refusal = budgets[-1].refusal
    assert refusal is not None
    assert refusal[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert "address 10.0.0.1 may take 1500000 bytes at the moment: ask again" in refusal[1]
    assert take_part(AnswerBudget(partial(held.take, QuotaKey("10.0.0.2"))), part)


def test_short_answers_always_find_room() -> None:
    """A connection has one at a time."""
    held = HeldRequests(Limits(max_held_requests_bytes=0))
    budget = AnswerBudget(partial(held.take, QuotaKey("10.0.0.1")))
    assert take_part(budget, described_group("g", user_data_bytes=50_000))
    assert not take_part(budget, described_group("h", user_data_bytes=50_000))
