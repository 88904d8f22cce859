"""A second opinion on predicted times: SimGrid plays the same messages on the same numbers."""
