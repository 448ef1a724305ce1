"""What a page shows of one query: who won, the ranking, the tournament, the matches and the rollouts."""
