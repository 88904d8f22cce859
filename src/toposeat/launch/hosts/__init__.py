"""Which host each rank starts on, in the words of each launcher."""
