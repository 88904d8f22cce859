"""Mass fuzzing, run by `make fuzz`; pytest does not collect it."""
