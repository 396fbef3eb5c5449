"""The training loop for networks: its cost, its step sizes, its strategies."""
