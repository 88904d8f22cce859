"""Tables of mapping quality and time, one module per table: `python -m benchmarks.mapping.NAME`."""
