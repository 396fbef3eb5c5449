"""What can go wrong in the laboratory, for the user to mend: the command line shows it in one line."""


class LabError(Exception):
    """Base of the laboratory's own errors."""
