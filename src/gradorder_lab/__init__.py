"""The laboratory: what the paper trains, run with the library and shown as tables and figures.

It is used by its command line, `gradorder`; nothing in it is an interface that stays.
"""

__all__: list[str] = []
