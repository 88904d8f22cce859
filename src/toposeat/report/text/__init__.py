"""Plain text for terminals and logs, one module per noun."""
