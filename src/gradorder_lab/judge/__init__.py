"""From rows to effects, from effects to verdicts."""
