"""The data path: client connections, their upstream connections, and the requests between them.

It decides which bytes pass unchanged and which are rewritten. Everything about groups is behind
`group_apis`.
"""
