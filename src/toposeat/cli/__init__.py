"""The command line: one file per verb. Errors become exit codes here only."""
