/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Several processes of Open MPI, each of which talks to each other one, with the data
 * compared: to all at once, in a ring, and a sum.
 *
 *     mpi_all SEED
 *
 * Rank 0 prints "N processes good".
 */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST  16        /* processes */
#define EACH  1000      /* words to each process */
#define RING  (1 << 16) /* words to the next one */
#define TIMES 10

static uint64_t to[MOST * EACH], from[MOST * EACH], ring[RING], sum;

static void
must(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s\n", what);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t
word(uint64_t seed, int src, int dst, int i)
{
	return (seed + (uint64_t)i) * 0x9e3779b97f4a7c15ULL ^ (uint64_t)(src * MOST + dst);
}

static void
once(uint64_t seed, int rank, int size)
{
	const int next = (rank + 1) % size, last = (rank + size - 1) % size;
	const uint64_t mine = (uint64_t)rank + seed;

	for (int p = 0; p < size; p++)
		for (int i = 0; i < EACH; i++)
			to[p * EACH + i] = word(seed, rank, p, i);
	MPI_Alltoall(to, EACH, MPI_UINT64_T, from, EACH, MPI_UINT64_T, MPI_COMM_WORLD);
	for (int p = 0; p < size; p++)
		for (int i = 0; i < EACH; i++)
			must(from[p * EACH + i] == word(seed, p, rank, i), "data differ");
	for (int i = 0; i < RING; i++)
		ring[i] = word(seed, rank, next, i);
	MPI_Sendrecv_replace(ring, RING, MPI_UINT64_T, next, 1, last, 1, MPI_COMM_WORLD,
	                     MPI_STATUS_IGNORE);
	for (int i = 0; i < RING; i++)
		must(ring[i] == word(seed, last, rank, i), "data of the ring differ");
	MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	must(sum == (uint64_t)size * seed + (uint64_t)size * (uint64_t)(size - 1) / 2,
	     "sums differ");
}

int
main(int argc, char **argv)
{
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(argc == 2 && size <= MOST, "usage: mpi_all SEED");
	for (int i = 0; i < TIMES; i++)
		once(strtoull(argv[1], NULL, 10) + (uint64_t)i, rank, size);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%d processes good\n", size);
	MPI_Finalize();
	return 0;
}
