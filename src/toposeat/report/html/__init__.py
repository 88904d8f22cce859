"""Self-contained HTML pages: styles, script and drawings are inline."""
