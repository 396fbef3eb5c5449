"""The training loops: one for networks, a compiled one for convex problems."""
