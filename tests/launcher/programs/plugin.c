/* SPDX-License-Identifier: MIT OR Apache-2.0 */
int MPI_Finalize(void);
int finish(void);
int finish(void) { return MPI_Finalize(); }
#ifdef DIRECT
int main(void) { return finish(); }
#endif
