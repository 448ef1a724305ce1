"""The page of two rollouts: why one is above the other, with both answers and both paths side by side."""
