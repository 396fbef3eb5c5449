"""Methods against each other on one task: paired seeds, tuned step sizes, cost to the same accuracy."""
