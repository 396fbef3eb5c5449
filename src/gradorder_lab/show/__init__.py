"""Terminal, figures, and the page: one file that opens from disk and asks nothing of the network."""
