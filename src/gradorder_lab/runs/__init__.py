"""Runs: a recipe, its rows, where they are kept, how many are run at once, where they came from."""
