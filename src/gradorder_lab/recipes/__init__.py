"""One file per experiment: its recipes and its figure."""
