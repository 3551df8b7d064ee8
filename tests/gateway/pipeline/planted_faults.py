"""Files of events with a fault of each kind."""

from pathlib import Path

from tests.gateway.pipeline.stories import play_story

SOUND = """- group sound
0 start
0 host 5
0 load
1 grant a t-0
2 commit a t-0=100
3 end a t-0 revoked
4 grant b t-0
5 fetch b t-0=100
9 stop
"""
FAULTY = """- group faulty
0 @f start
0 @f host 5
0 @f load
1 @f grant a t-0 t-1
2 @f commit a t-1=100
3 @f grant b t-0
3 @f end a t-1 revoked
3 @f grant b t-1
5 @f commit b t-1=40
- @f lose 3
6 @f end b t-0 t-1 revoked
9 @f stop
"""
LOST = """- group told_40
0 @l start
0 @l host 5
0 @l load
1 @l grant a t-0
2 @l commit a t-0=100
3 @l end a t-0 revoked
4 @l grant b t-0
5 @l fetch b t-0=40
6 @l event partitions_blessed {}
9 @l stop
"""


def plant(folder: Path) -> None:
    """Write a file with a sound group, one with faulty groups, and one of garbage."""
    folder.mkdir()
    for name, stories in (("sound", (SOUND,)), ("planted", (FAULTY, LOST))):
        lines = [line for story in stories for line in play_story(story).lines]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "garbage").write_bytes(bytes(range(256)) * 20)
