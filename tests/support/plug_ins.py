"""Packages with an assignor, as if they were installed."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from coordinator.interface.volatile_records import Computation, Subscriber
from tests.support.group_values import topic_id

FOO = topic_id("foo")


def install(folder: Path, sources: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each assignor importable under its name, here and in child processes. A source defines
    `assign`."""
    for name, source in sources.items():
        module = name.replace("-", "_")
        monkeypatch.delitem(sys.modules, module, raising=False)  # of an earlier test
        (folder / f"{module}.py").write_text(source)
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(
            f"[groupferry.assignors]\n{name} = {module}:assign\n"
        )
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def computation(assignor: str, *, epoch: int = 7, partition_count: int = 3) -> Computation:
    """Two members; the first has everything."""
    member = Subscriber(instance_id=None, topic_ids=frozenset({FOO}))
    return Computation(
        epoch=epoch,
        assignor=assignor,
        members={"m1": member, "m2": member},
        partition_counts={FOO: partition_count},
        target={},
    )
