"""What `import toposeat` offers: functions that take what a program has at hand, in its words."""
