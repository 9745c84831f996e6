"""Training: recipes, schedules, the loop, checkpoints. Needs the extra `train`."""
