"""How data moves between two GPUs: the experiments of Ji et al. 2012 and of CSCS 2018."""
