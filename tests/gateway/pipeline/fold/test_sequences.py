"""What is missing from the numbers of a process, whatever parts they come in."""

import random

import pytest

from gateway.pipeline.fold.sequences import ENDED, OF_GROUP, STATED, Number, RunKey, RunsFold

KEY = RunKey("g", 1, "p")


@pytest.mark.parametrize("seed", range(50))
def test_parts_of_any_size_say_the_same_as_single_numbers(seed: int) -> None:
    """Some numbers are missing, repeated or contradictory, and some name the run before."""
    dice = random.Random(seed)
    numbers: list[Number] = []
    for sequence in range(dice.choice((1, 5)), 200):
        about = dice.choice((STATED, OF_GROUP, ENDED))
        number = Number(sequence, 10 * sequence, about, dice.randrange(9), dice.randrange(3))
        if dice.random() < 0.01:
            number = number._replace(previous_run=dice.randrange(2))
        copies = dice.choices((0, 1, 2), (1, 200, 1))[0]
        numbers += [number] * copies
        if dice.random() < 0.01:
            numbers.append(number._replace(content=9))
    whole, single, parts = RunsFold("g"), RunsFold("g"), RunsFold("g")
    whole.take(KEY, numbers)
    for number in numbers:
        single.take(KEY, [number])
    begin = 0
    while begin < len(numbers):
        end = begin + dice.randrange(1, 60)
        parts.take(KEY, numbers[begin:end])
        begin = end
    assert [*whole.finish()] == [*single.finish()] == [*parts.finish()]
