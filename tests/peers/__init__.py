"""Real peers that nobody here wrote, against ours."""
