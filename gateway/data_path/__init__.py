"""The data path: client connections, their upstream connections, and what happens in between.

It knows which bytes may pass and which must be changed; it must not know how a group works
(that is behind `group_apis`).
"""
