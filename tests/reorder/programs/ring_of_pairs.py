"""Ranks 2k and 2k + 1 exchange much; prints the new rank of each old one."""

from mpi4py import MPI

world = MPI.COMM_WORLD
peer = world.rank ^ 1
graph = world.Create_dist_graph_adjacent([peer], [peer], [5], [5], reorder=True)
sources, targets, _ = graph.Get_dist_neighbors()
assert sources == targets == [graph.rank ^ 1]
assert graph.neighbor_allgather(graph.rank) == [graph.rank ^ 1]
ranks = world.gather(graph.rank)
if ranks is not None:
    print(*ranks)
