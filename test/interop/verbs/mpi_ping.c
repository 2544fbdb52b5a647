/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A ping of Open MPI between two processes, as osu_latency does it, with the data compared.
 *
 *     mpi_ping SEED
 *
 * Rank 0 prints a line for each size: octets, rounds, half a round trip in us.
 *
 * Then both send at once and receive at once, and each gets back the sum of both arrays. Rank 0
 * prints "sums good".
 */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST   (4 << 20)
#define ROUNDS 50
#define WORDS  (1 << 16)

static void
fill(uint8_t *p, int n, uint32_t seed)
{
	for (int i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (uint8_t)(seed >> 24);
	}
}

static void
must(int ok, const char *what, int n)
{
	if (ok)
		return;
	fprintf(stderr, "%s, %d octets\n", what, n);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
ping(int rank, int n, uint32_t seed, uint8_t *mem, uint8_t *want)
{
	double start = 0;
	int got;
	MPI_Status st;

	for (int i = -1; i < ROUNDS; i++) {
		/* each round has other data; the first one makes connections */
		fill(want, n, seed + (uint32_t)i * 77777 + (uint32_t)n);
		if (i == 0)
			start = MPI_Wtime();
		if (rank == 0) {
			memcpy(mem, want, (size_t)n);
			MPI_Send(mem, n, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
			memset(mem, 0, (size_t)n);
		}
		MPI_Recv(mem, MOST, MPI_BYTE, 1 - rank, 5, MPI_COMM_WORLD, &st);
		MPI_Get_count(&st, MPI_BYTE, &got);
		must(got == n && memcmp(mem, want, (size_t)n) == 0, "data differ", n);
		if (rank == 1)
			MPI_Send(mem, n, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%d %d %.2f\n", n, ROUNDS, (MPI_Wtime() - start) * 1e6 / ROUNDS / 2);
}

static void
both_at_once(int rank, uint32_t seed, uint8_t *mem, uint8_t *want)
{
	static uint64_t mine[WORDS], sum[WORDS];

	fill(want, MOST, seed + (uint32_t)(1 - rank));
	fill(mem, MOST, seed + (uint32_t)rank);
	MPI_Sendrecv_replace(mem, MOST, MPI_BYTE, 1 - rank, 6, 1 - rank, 6, MPI_COMM_WORLD,
	                     MPI_STATUS_IGNORE);
	must(memcmp(mem, want, MOST) == 0, "exchanged data differ", MOST);
	for (uint64_t i = 0; i < WORDS; i++)
		mine[i] = i * (uint64_t)(rank + 1) + seed;
	MPI_Allreduce(mine, sum, WORDS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	for (uint64_t i = 0; i < WORDS; i++)
		must(sum[i] == 3 * i + 2ULL * seed, "sums differ", WORDS);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("sums good\n");
}

int
main(int argc, char **argv)
{
	uint8_t *mem = malloc(MOST), *want = malloc(MOST);
	uint32_t seed;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	must(argc == 2 && size == 2 && mem != NULL && want != NULL, "usage, or no memory", 0);
	seed = (uint32_t)strtoul(argv[1], NULL, 10);
	ping(rank, 0, seed, mem, want);
	for (int n = 1; n <= MOST; n *= 4)
		ping(rank, n, seed, mem, want);
	both_at_once(rank, seed, mem, want);
	MPI_Finalize();
	return 0;
}
