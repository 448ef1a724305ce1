"""Instructions that are evolved by tournament: candidates, what is known of them, and the loop that writes new ones."""
