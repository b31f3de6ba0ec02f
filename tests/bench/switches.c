// SPDX-License-Identifier: BSD-2-Clause
// Cost of a context switch: two processes on a CPU that pass a byte to and fro. "switches CPU NAME
// ROUND" prints a sample for summary: the 10th percentile of blocks, because other threads run too.
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS     200
#define TURNS      200 /* of two switches each */
#define LOW_BLOCKS (BLOCKS / 10)

static double now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void hand(int to, int from)
{
	char c = 0;

	if (write(to, &c, 1) != 1 || read(from, &c, 1) != 1)
		exit(1);
}

int main(int argc, char **argv)
{
	int there[2], back[2];
	double took[BLOCKS];
	cpu_set_t set;
	pid_t other;

	if (argc != 4)
		return 2;
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[1]), &set);
	if (sched_setaffinity(0, sizeof(set), &set) || pipe(there) || pipe(back))
		return 1;
	other = fork();
	if (other < 0)
		return 1;
	if (!other) {
		char c;

		close(there[1]);
		while (read(there[0], &c, 1) == 1 && write(back[1], &c, 1) == 1)
			;
		_exit(0);
	}
	for (int i = 0; i < BLOCKS; i++) {
		double begin = now_ns();

		for (int n = 0; n < TURNS; n++)
			hand(there[1], back[0]);
		took[i] = (now_ns() - begin) / (2 * TURNS);
	}
	kill(other, SIGKILL);
	qsort(took, BLOCKS, sizeof(*took), compare);
	printf("%s %s %.3f\n", argv[3], argv[2], took[LOW_BLOCKS]);
	return 0;
}
