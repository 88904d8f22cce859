"""The data model: frozen dataclasses, and how they are loaded and saved. No other I/O."""
