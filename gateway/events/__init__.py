"""Events: what happened to groups and to the gateway, for operators. Each is defined once."""
