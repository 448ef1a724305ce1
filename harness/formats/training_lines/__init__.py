"""Training data read back: each line as trajectories with the places that the file gives them."""
