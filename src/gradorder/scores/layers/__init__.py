"""What each layer adds to a squared gradient norm."""
