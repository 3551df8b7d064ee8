"""The program of an attacked gateway: `groupferry` with small tables.

What a gateway remembers is bounded by numbers that an attack from one address needs millions of
frames to reach. With smaller ones its memory stops growing soon, and each frame after that shows
that the bounds hold. Bounds with a setting are in `tests.fuzz.campaign.FLAGS`.
"""

from collections.abc import Mapping
from importlib import import_module

TABLES: Mapping[str, Mapping[str, object]] = {
    "gateway.board.lags": {"PARTITIONS_MAX": 500},
    "gateway.board.recent_events": {"EVENTS_MAX": 500},
    "gateway.board.steps": {"GROUPS_MAX": 150, "ENTRIES_MAX": 500},
    "gateway.board.group_stats": {
        "GROUPS_MAX": 150,
        "CLIENTS_IN_ALL_MAX": 200,
        "PARTITIONS_MAX": 2_000,
    },
    "gateway.data_path.removal": {"REMEMBERED_MAX": 200},
    "gateway.data_path.traffic": {"CLIENTS_MAX": 200},
    "gateway.groups.forgetting": {
        "FIRST_LOOK_S": (5.0, 10.0),
        "NEW_GROUPS_MAX": 50,
        "COUNT_INTERVAL_S": 5.0,
    },
    "gateway.groups.regex_permissions": {"GROUPS_MAX": 150, "TOPICS_MAX": 1_000},
    "gateway.hosting.forwarded": {"BYTES_MAX": 1024 * 1024},
    "gateway.requests.config_apis": {"CONFIGS_ALONE_MAX": 100},
    "gateway.requests.coordinators": {"REMEMBERED_MAX": 300},
    "gateway.observers.offset_reporter": {"PARTITIONS_MAX": 1_000},
}
"""The limits by module. All are read when they are needed, not when the module is loaded."""
DECODED_MAX = 200
"""Replaces `gateway.data_path.client_frames.HEARTBEATS_MAX`, which a cache has read when it was
made. With that many entries the cache would grow for the first 430,000 frames."""


def program() -> str:
    """The text for `python -c`. Raises AttributeError if a table has been renamed."""
    lines = [
        "import sys",
        "from functools import lru_cache",
        "from gateway.cli import main",
        "from gateway.data_path import client_frames",
        f"client_frames._decode_remembered = lru_cache({DECODED_MAX})(client_frames.decode)",
    ]
    for module, bounds in TABLES.items():
        lines.append(f"import {module} as module")
        for name, bound in bounds.items():
            getattr(import_module(module), name)
            lines.append(f"module.{name} = {bound}")
    return "\n".join([*lines, "sys.exit(main())"])
