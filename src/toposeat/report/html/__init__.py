"""One HTML page that needs nothing but itself: inline styles, script and drawings."""
