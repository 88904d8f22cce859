"""What a CUDA driver answers, and what another one does: see __main__."""
