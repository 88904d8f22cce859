"""The data model: frozen records, and how they are loaded and saved. No other I/O."""
