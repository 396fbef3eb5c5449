"""Data that the experiments train on."""
