"""Named communication patterns: traffic from a string."""
