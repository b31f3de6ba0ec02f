// SPDX-License-Identifier: BSD-2-Clause
// The CPU time of processes, by the clock that the kernel has for each.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/proc.h"

/* As the kernel and the C library number them: clock_getcpuclockid(3), CPUCLOCK_SCHED. */
static clockid_t clock_of(pid_t pid)
{
	return (clockid_t)((~(unsigned int)pid << 3) | 2);
}

void load_new(const pid_t *pids, size_t cnt, struct load *ret_load)
{
	struct load load = { .start_ns = clock_ns(CLOCK_MONOTONIC) };

	load.of = xcalloc(cnt + 1, sizeof(*load.of));
	for (size_t i = 0; i < cnt; i++)
		load.of[i].pid = pids[i];
	load.cnt = cnt;
	load_ns(&load);
	for (size_t i = 0; i < cnt; i++)
		load.of[i].from_ns = load.of[i].ns;
	*ret_load = load;
}

void load_add(struct load *load, pid_t pid)
{
	for (size_t i = 0; i < load->cnt; i++)
		if (load->of[i].pid == pid)
			return;
	load->of = xreallocarray(load->of, load->cnt + 2, sizeof(*load->of));
	load->of[load->cnt++] = (struct load_of) { .pid = pid };
}

void load_done(struct load *load)
{
	free(load->of);
	load->of = NULL;
	load->cnt = 0;
}

uint64_t load_ns(struct load *load)
{
	uint64_t sum = 0;

	if (!load->cnt)
		return (clock_ns(CLOCK_MONOTONIC) - load->start_ns) *
			sysconf(_SC_NPROCESSORS_ONLN);
	for (size_t i = 0; i < load->cnt; i++) {
		struct load_of *of = &load->of[i];
		struct timespec ts;

		/* The CPU time of an exited process stays in the sum. */
		if (!clock_gettime(clock_of(of->pid), &ts) &&
			ts.tv_sec * 1000000000ULL + ts.tv_nsec > of->ns)
			of->ns = ts.tv_sec * 1000000000ULL + ts.tv_nsec;
		sum += of->ns - of->from_ns;
	}
	return sum;
}
