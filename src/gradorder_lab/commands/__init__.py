"""What each command of `gradorder` does."""
