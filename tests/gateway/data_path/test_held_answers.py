"""Long answers of brokers: in total, and of each owner. A client waits if there is no space
left."""

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from gateway.data_path.errors import TooMuchHeld
from gateway.data_path.held_answers import WAIT_S, HeldAnswer, HeldAnswers
from gateway.quotas.quota_key import QuotaKey

ANNA, BERT, CARL = (QuotaKey(f"10.0.0.{number}") for number in range(3))


class Waiters:
    """Tasks that ask for room, in the order in which they get it."""

    def __init__(self, answers: HeldAnswers, nursery: trio.Nursery) -> None:
        self.answers, self._nursery = answers, nursery
        self.rooms: dict[str, HeldAnswer] = {}

    async def ask(self, name: str, owner: QuotaKey, size: int) -> None:
        """Ask, and let all tasks go as far as possible."""

        async def wait() -> None:
            self.rooms[name] = await self.answers.take(owner, size)

        self._nursery.start_soon(wait)
        await wait_all_tasks_blocked()

    async def free(self, name: str) -> None:
        """The answer is done."""
        self.rooms[name].free()
        await wait_all_tasks_blocked()


async def test_an_answer_waits_until_others_are_done(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Its broker waits meanwhile."""
    waiters = Waiters(HeldAnswers(100), nursery)
    await waiters.ask("first", ANNA, 60)
    await waiters.ask("second", BERT, 60)
    assert set(waiters.rooms) == {"first"}
    await waiters.free("first")
    assert set(waiters.rooms) == {"first", "second"}
    assert waiters.answers._total.used == 60


async def test_one_answer_is_always_admitted(nursery: trio.Nursery) -> None:
    """The answer may have any length."""
    waiters = Waiters(HeldAnswers(100), nursery)
    await waiters.ask("long", ANNA, 1_000)
    assert set(waiters.rooms) == {"long"}


async def test_an_owner_leaves_room_for_others(nursery: trio.Nursery) -> None:
    """Its further answers wait, but not those of others behind them."""
    waiters = Waiters(HeldAnswers(100), nursery)
    for number in range(5):
        await waiters.ask(f"anna {number}", ANNA, 20)
    assert set(waiters.rooms) == {"anna 0", "anna 1"}
    await waiters.ask("bert", BERT, 20)
    assert "bert" in waiters.rooms
    nursery.cancel_scope.cancel()


async def test_the_first_answer_of_an_owner_needs_no_share(nursery: trio.Nursery) -> None:
    """If every answer needed a share, those of other owners would overtake a long one again and
    again."""
    waiters = Waiters(HeldAnswers(100), nursery)
    await waiters.ask("anna", ANNA, 40)
    await waiters.ask("bert", BERT, 55)
    assert set(waiters.rooms) == {"anna", "bert"}


async def test_nobody_overtakes_an_answer_that_waits_for_the_total(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """Short ones would keep a long one waiting for ever."""
    waiters = Waiters(HeldAnswers(100), nursery)
    await waiters.ask("short", ANNA, 40)
    await waiters.ask("long", BERT, 90)
    await waiters.ask("shorter", CARL, 10)
    assert set(waiters.rooms) == {"short"}
    await waiters.free("short")
    assert set(waiters.rooms) == {"short", "long", "shorter"}


async def test_owners_take_turns(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """One that asks often does not keep others waiting."""
    waiters = Waiters(HeldAnswers(100), nursery)
    await waiters.ask("first", ANNA, 100)
    await waiters.ask("second", ANNA, 100)
    await waiters.ask("third", ANNA, 100)
    await waiters.ask("bert", BERT, 100)
    for name in ("first", "second", "bert", "third"):
        assert list(waiters.rooms)[-1] == name
        await waiters.free(name)
    assert waiters.answers._total.used == 0


async def test_all_that_fit_get_room_together(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The answers may be of one owner."""
    waiters = Waiters(HeldAnswers(100), nursery)
    await waiters.ask("long", ANNA, 100)
    await waiters.ask("second", BERT, 20)
    await waiters.ask("third", BERT, 20)
    await waiters.free("long")
    assert set(waiters.rooms) == {"long", "second", "third"}


async def test_waiting_is_bounded_in_time(autojump_clock: MockClock, nursery: trio.Nursery) -> None:
    """The connection then closes, and the next answer in the queue may continue."""
    answers = HeldAnswers(100)
    waiters = Waiters(answers, nursery)
    await waiters.ask("first", ANNA, 50)
    started_s = trio.current_time()
    with pytest.raises(TooMuchHeld, match="take 50 bytes already"):
        await answers.take(BERT, 60)
    assert trio.current_time() - started_s == WAIT_S
    await waiters.ask("short", BERT, 30)
    assert set(waiters.rooms) == {"first", "short"}


async def test_a_client_that_goes_gives_its_place_up(
    autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    """The place is also free if room was given before the task notices that it has to go."""
    answers = HeldAnswers(100)
    waiters = Waiters(answers, nursery)
    await waiters.ask("first", ANNA, 60)
    with trio.move_on_after(1):
        await answers.take(BERT, 90)
    async with trio.open_nursery() as others:
        others.start_soon(answers.take, BERT, 90)
        await wait_all_tasks_blocked()
        others.cancel_scope.cancel()
        waiters.rooms["first"].free()
    assert answers._total.used == 0


async def test_room_is_freed_once(nursery: trio.Nursery) -> None:
    """An answer may be both read and forgotten."""
    answers = HeldAnswers(100)
    room = await answers.take(ANNA, 60)
    await answers.take(BERT, 30)
    room.free()
    room.free()
    assert answers._total.used == 30
