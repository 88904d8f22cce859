"""What the running machine says of itself."""
