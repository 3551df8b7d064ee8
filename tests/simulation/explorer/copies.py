"""Copies a world by pickling what changes, and sharing what does not.

A copy needs nothing of the copied classes, so no shipped class has to know how to copy itself.
Functions, enumerations, and the immutable dataclasses of the engine and the codecs are shared; a
class that this module does not know is copied, which is slower but right.
"""

import io
import pickle
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType
from typing import Any, NamedTuple, TypeVar, get_args
from uuid import UUID

from coordinator.interface.topics import Partition
from coordinator.interface.volatile_records import DeadlineKey
from gateway.events.event import GatewayEvent
from gateway.hosting.batch import Decision
from gateway.hosting.calls import Forwarded, Outcome, Refused, Released
from gateway.hosting.effects import AskCoordinator, Assign, Forget, Load, Look, Resolve
from gateway.hosting.forwarded import WatchedMember
from gateway.hosting.group_routing import RoutingDecision
from gateway.hosting.identity import AnchorIds, AnchorJoinMetadata, Gateway
from gateway.hosting.lookup_outcome import LiveMembers, LookupFailed, NoMembers
from gateway.hosting.upstream_member import UpstreamStage
from kafka_codecs.declaration import Struct
from tests.simulation.broker_profiles import BrokerProfile

T = TypeVar("T")

_SHARED = (
    *(Enum, FunctionType, BuiltinFunctionType, MappingProxyType, partial, UUID, type),
    *(GatewayEvent, Struct),
    *(Decision, Forwarded, Outcome, Refused, Released),
    *(AskCoordinator, Assign, Forget, Load, Look, Resolve),
    *(AnchorIds, AnchorJoinMetadata, Gateway, BrokerProfile, WatchedMember),
    *(DeadlineKey, Partition),
    *(LookupFailed, NoMembers, LiveMembers, RoutingDecision),
    *get_args(UpstreamStage),
)
"""Nobody changes instances of these, or what they refer to."""
_PACKAGES = ("coordinator.", "kafka_codecs.")
"""Their immutable dataclasses hold nothing that changes."""
_WORLD = "tests.simulation.explorer."

_is_shared: dict[type[Any], bool] = {}


class Copy(NamedTuple):
    """A world at one moment. `restore` makes any number of worlds from it."""

    changing: bytes
    shared: tuple[Any, ...]


def copy(original: Any) -> Copy:
    """Copy it."""
    out = io.BytesIO()
    pickler = _Pickler(out)
    pickler.dump(original)
    return Copy(out.getvalue(), tuple(pickler.shared))


def restore(saved: Copy) -> Any:
    """Make another of what was copied."""
    return _Unpickler(saved).load()


def _nth(number: int) -> Any:
    """Stands for the look-up in what is shared, which `_Unpickler` puts in its place."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, saved: Copy) -> None:
        super().__init__(io.BytesIO(saved.changing))
        self._nth = saved.shared.__getitem__

    def find_class(self, module: str, name: str) -> Any:
        return self._nth if name == _nth.__name__ else super().find_class(module, name)


class _Pickler(pickle.Pickler):
    def __init__(self, out: io.BytesIO) -> None:
        super().__init__(out, pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []

    def reducer_override(self, value: Any) -> Any:
        """Called once for each object that is not of a builtin type."""
        kind = type(value)
        shares = _is_shared.get(kind)
        if shares is None:
            shares = _is_shared[kind] = is_shared(kind)
        if not shares or value is _nth:
            return NotImplemented
        self.shared.append(value)
        return _nth, (len(self.shared) - 1,)


def is_shared(kind: type[Any]) -> bool:
    """Whether copies of a world have the same instances."""
    if issubclass(kind, _SHARED):
        return True
    return is_value(kind) and kind.__module__.startswith((*_PACKAGES, _WORLD))


def is_value(kind: type[Any]) -> bool:
    """Whether it is a dataclass whose instances nobody changes."""
    if not is_dataclass(kind):
        return False
    params = kind.__dataclass_params__  # type: ignore[attr-defined]
    return bool(params.frozen or params.unsafe_hash)
