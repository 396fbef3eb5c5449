"""The convex problems of the paper."""
