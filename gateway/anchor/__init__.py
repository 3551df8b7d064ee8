"""The anchor: the gateway's own member, which holds each hosted group in the cluster.

This package contains no rules of the engine and handles no client requests.
"""
