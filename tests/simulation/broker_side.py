"""The two sides of a script about brokers: a real one, and the simulated one of its release."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import trio

from kafka_codecs import decode, encode
from kafka_codecs.declaration import Struct
from tests.simulation.broker import API_KEYS, Broker, Sender
from tests.simulation.broker_profiles import BrokerProfile
from tests.support.differential.side import NO_ANSWER, Address, Side

TICK_S = 0.01


@dataclass(slots=True, kw_only=True)
class RealSide(Side):
    """A broker of the profile's release."""

    profile: BrokerProfile

    async def ask(self, who: str, message: Struct, version: int | None) -> Struct | str:
        """Ask as the base class does, at most with the newest version of the release."""
        return await Side.ask(self, who, message, _version(self.profile, message, version))

    def move_to(self, address: Address) -> None:
        """Send what follows to another broker."""
        self.address = address
        self._idle.clear()


@dataclass(slots=True, kw_only=True)
class SimulatedSide(Side):
    """The simulated broker, in real time."""

    broker: Broker
    _asked: int = 0
    _waiting: dict[int, trio.Event] = field(default_factory=dict)
    _answers: dict[int, Struct | str] = field(default_factory=dict)

    async def ask(self, who: str, message: Struct, version: int | None) -> Struct | str:
        """The answer to a request, once there is one."""
        self._asked += 1
        number = self._asked
        self._waiting[number] = trio.Event()
        version = _version(self.broker.profile, message, version)
        self._record(
            self.broker.handle(message, Sender(who), _now_ms(), request_id=number, version=version)
        )
        await self._waiting[number].wait()
        answer = self._answers[number]
        if isinstance(answer, str):
            return answer
        # A version may lack fields.
        return decode(type(answer), encode(answer, version), version)

    async def pass_time(self) -> None:
        """Let time pass, without end."""
        while True:
            await trio.sleep(TICK_S)
            self._record(self.broker.pass_time(_now_ms()))

    def move(self) -> None:
        """Have another broker coordinate the group. What this one did not answer ends with its
        connections."""
        self._record(self.broker.move(_now_ms()))
        self._record(
            [(number, NO_ANSWER) for number in self._waiting.keys() - self._answers.keys()]
        )

    def _record(self, answers: Iterable[tuple[int, Struct | str]]) -> None:
        for number, answer in answers:
            self._answers[number] = answer
            self._waiting[number].set()


def _version(profile: BrokerProfile, message: Struct, version: int | None) -> int:
    newest = profile.versions[API_KEYS[type(message)]]
    return newest if version is None else min(version, newest)


def _now_ms() -> int:
    return int(trio.current_time() * 1000)
