"""Published figures beside what this project computes, predicts, simulates and measures."""
