"""The gateway's own member in each hosted group of the cluster: it keeps the group ours.

Must not know the engine's rules, nor what clients ask.
"""
