"""JSON of the nouns and of results, each with its schema."""
