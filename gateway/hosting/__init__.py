"""The life of one group behind the gateway, as a pure machine.

`HostedGroup` (`group.py`) takes inputs and returns effects (`inputs.py`, `effects.py`). It uses no
Trio, sockets, clock, randomness or logging; `gateway/groups/` carries its effects out.
"""
