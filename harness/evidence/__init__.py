"""Evidence: which claims of an answer stand in the tool outputs, the query or the reference. Pure; asks no model."""
