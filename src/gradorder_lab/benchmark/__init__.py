"""The field's methods against tuned random reshuffling."""
