"""Plays every interleaving of a world, breadth first, until it is exhausted or a bound is reached.

A state that was not expanded is unknown, and so is a state from which only such states, and no
rest, can be reached.
"""

import gc
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.simulation.explorer.beginning import begin
from tests.simulation.explorer.canonical import digest
from tests.simulation.explorer.checks import check
from tests.simulation.explorer.copies import Copy, copy, restore
from tests.simulation.explorer.moves import free_moves, make, moves_of
from tests.simulation.explorer.prices import price
from tests.simulation.explorer.promises import BrokenPromiseError, promise
from tests.simulation.explorer.shape import Shape
from tests.simulation.explorer.small_world import Move, World

NO_REST = "no way leads from here to rest, where every consumer has its share"
REST_WITHIN_MOVES = 60
"""How many free moves may lead from any state to rest. Each is a request, an answer, or the time
to the next deadline."""
GARBAGE_MAX = 100_000
"""After this many new objects, garbage is collected. What is reached is kept for long."""
LIVE_MAX = 500
"""How many states of a layer are kept as they are. The others are saved: a copy is small."""
TOO_FAR = "the way from here to rest, where every consumer has its share, is too long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where a search ends."""

    states_max: int = 1_000_000
    transitions_max: int = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A broken promise, and the moves that lead to it."""

    reason: str
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a search has seen."""

    world: str
    states: int
    transitions: int
    depth: int
    at_rest: int
    """States in which every consumer has its share."""
    moves_to_rest: int
    """Free moves on the shortest way to rest, from the state that is farthest from it."""
    unexpanded: int
    """States from which not every move was played, because a bound ended the search."""
    unknown: int
    """States from which rest was not reached, though perhaps only because of a bound."""
    cut: int
    """States in which a move was left out because its budget was used up. What follows is
    unknown."""
    finding: Finding | None

    @property
    def is_exhausted(self) -> bool:
        """Whether every interleaving was played, within the world's budgets."""
        return not self.unexpanded and self.finding is None


@contextmanager
def _little_collected() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.set_threshold(GARBAGE_MAX)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


class Search:
    """The states seen so far, and how they were reached."""

    def __init__(self, shape: Shape, bounds: Bounds) -> None:
        self._shape, self._bounds = shape, bounds
        self._numbers: dict[bytes, int] = {}
        self._parents = array("q")
        self._moves: list[Move] = []
        self._rest: list[int] = []
        self._calm_from, self._calm_to = array("q"), array("q")
        """The transitions by free moves."""
        self._transitions = self._cut = self._depth = 0

    @_little_collected()
    def run(
        self,
        progress: Callable[[int, int, int], None] = lambda *_: None,
        first: World | None = None,
    ) -> Report:
        """Play all of it. `progress` gets depth, states and transitions after each layer. `first`:
        the state to begin with, if that is not the world's first one."""
        open_: list[int] = []
        try:
            world = self._begin() if first is None else first
            layer: list[tuple[int, World | Copy]] = [self._enter(world, digest(world), -1, "")]
            while layer:
                following: list[tuple[int, World | Copy]] = []
                layer.reverse()
                while layer:
                    if self._is_enough():
                        open_ = [stage for stage, _ in (*reversed(layer), *following)]
                        break
                    for reached, world in self._expand(*layer.pop()):
                        is_room = len(following) < LIVE_MAX
                        following.append((reached, world if is_room else copy(world)))
                if open_:
                    break
                self._depth += bool(following)
                layer = following
                progress(self._depth, len(self._moves), self._transitions)
        except _Found as violation:
            return self._report(0, 0, violation.finding)
        return self._judge(open_)

    def _begin(self) -> World:
        try:
            world = begin(self._shape)
            check(world)
        except BrokenPromiseError as broken:
            raise _Found(Finding(reason=str(broken), moves=())) from broken
        return world

    def _is_enough(self) -> bool:
        return (
            len(self._moves) >= self._bounds.states_max
            or self._transitions >= self._bounds.transitions_max
        )

    def _enter(self, world: World, form: bytes, parent: int, move: Move) -> tuple[int, World]:
        number = self._numbers[form] = len(self._moves)
        self._parents.append(parent)
        self._moves.append(move)
        if world.is_at_rest():
            self._rest.append(number)
        return number, world

    def _expand(self, number: int, state: World | Copy) -> Iterator[tuple[int, World]]:
        """Play every move of a state. Most states have only one, which needs no copy."""
        world: World | None = restore(state) if isinstance(state, Copy) else state
        assert world is not None
        moves, is_cut = moves_of(world)
        self._cut += is_cut
        saved = copy(world) if len(moves) > 1 else None
        for move in moves:
            if world is None:
                assert saved is not None
                world = restore(saved)
            self._transitions += 1
            try:
                make(world, move)
                form = digest(world)
                reached = self._numbers.get(form)
                if reached is None:
                    check(world)
                    reached, following = self._enter(world, form, number, move)
                    yield reached, following
            except BrokenPromiseError as broken:
                finding = Finding(reason=str(broken), moves=(*self.path(number), move))
                raise _Found(finding) from broken
            world = None
            if not price(move):
                self._calm_from.append(number)
                self._calm_to.append(reached)

    def path(self, number: int) -> tuple[Move, ...]:
        """The moves from the beginning to a state."""
        moves = []
        while self._parents[number] >= 0:
            moves.append(self._moves[number])
            number = self._parents[number]
        return tuple(reversed(moves))

    def _judge(self, unexpanded: Sequence[int]) -> Report:
        """Find the states from which nothing leads to rest."""
        states = range(len(self._moves))
        before: dict[int, list[int]] = {}
        for source, target in zip(self._calm_from, self._calm_to, strict=True):
            before.setdefault(target, []).append(source)
        to_rest = _distances(self._rest, before)
        maybe = _distances(unexpanded, before)
        lost = next((n for n in states if n not in to_rest and n not in maybe), None)
        far = next(
            (n for n, moves in to_rest.items() if moves > REST_WITHIN_MOVES and n not in maybe),
            None,
        )
        finding = None
        if lost is not None:
            finding = Finding(reason=NO_REST, moves=self.path(lost))
        elif far is not None:
            finding = Finding(reason=TOO_FAR, moves=self.path(far))
        unknown = len(maybe.keys() - to_rest.keys())
        return self._report(len(unexpanded), unknown, finding, max(to_rest.values(), default=0))

    def _report(
        self, unexpanded: int, unknown: int, finding: Finding | None, moves_to_rest: int = 0
    ) -> Report:
        return Report(
            world=self._shape.name,
            states=len(self._moves),
            transitions=self._transitions,
            depth=self._depth,
            at_rest=len(self._rest),
            moves_to_rest=moves_to_rest,
            unexpanded=unexpanded,
            unknown=unknown,
            cut=self._cut,
            finding=finding,
        )


class _Found(Exception):
    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.reason)
        self.finding = finding


def _distances(from_: Sequence[int], before: dict[int, list[int]]) -> dict[int, int]:
    """The states that lead to these, and in how few moves."""
    distances = dict.fromkeys(from_, 0)
    todo = deque(from_)
    while todo:
        state = todo.popleft()
        for source in before.get(state, ()):
            if source not in distances:
                distances[source] = distances[state] + 1
                todo.append(source)
    return distances


def require_rest(world: World) -> None:
    """Raises BrokenPromiseError unless few free moves lead from here to rest."""
    seen, layer, moves = {digest(world)}, [copy(world)], 0
    while layer:
        following = []
        for saved in layer:
            here = restore(saved)
            if here.is_at_rest():
                promise(moves <= REST_WITHIN_MOVES, TOO_FAR)
                return
            for move in free_moves(here):
                there = restore(saved)
                make(there, move)
                form = digest(there)
                if form not in seen:
                    seen.add(form)
                    following.append(copy(there))
        layer, moves = following, moves + 1
    promise(False, NO_REST)


def explore(
    shape: Shape,
    bounds: Bounds | None = None,
    progress: Callable[[int, int, int], None] = lambda *_: None,
) -> Report:
    """Search a world."""
    return Search(shape, bounds or Bounds()).run(progress)
