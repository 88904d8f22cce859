/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Constants of the three ABIs (docs/adr/0003) that this library needs beside the symbols that
 * the MPI exports. tests/reorder/test_abi.py compares them with every mpi.h on the machine.
 */
#ifndef TOPOSEAT_REORDER_ABI_H
#define TOPOSEAT_REORDER_ABI_H

#define OPENMPI_COMM_TYPE_SHARED 0
#define OPENMPI_UNWEIGHTED ((const int *)2)
#define OPENMPI_WEIGHTS_EMPTY ((const int *)3)

#define MPICH_COMM_WORLD 0x44000000
#define MPICH_COMM_NULL 0x04000000
#define MPICH_INT 0x4c000405
#define MPICH_MIN 0x58000002
#define MPICH_INFO_NULL 0x1c000000
#define MPICH_ERRORS_RETURN 0x54000001
#define MPICH_COMM_TYPE_SHARED 1

#define STANDARD_COMM_WORLD 0x101
#define STANDARD_COMM_NULL 0x100
#define STANDARD_INT 0x209
#define STANDARD_MIN 0x22
#define STANDARD_INFO_NULL 0x130
#define STANDARD_ERRORS_RETURN 0x143
#define STANDARD_COMM_TYPE_SHARED 221
#define STANDARD_UNWEIGHTED ((const int *)10)
#define STANDARD_WEIGHTS_EMPTY ((const int *)11)

#endif
