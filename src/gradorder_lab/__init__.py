"""The laboratory: what the paper trains, run with the library and shown as tables and figures."""
