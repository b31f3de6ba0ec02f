// SPDX-License-Identifier: BSD-2-Clause
// Reading a group's counters during a calibration, and the run time that its programs measure.
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <bpf/bpf.h>

#include "group/records.h"
#include "internal.h"

int counters_map(int dir_fd, struct map_mapping *ret_stats, uint32_t *ret_rows)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_STATS), 0);
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	if (fd < 0)
		return fd;
	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	*ret_rows = info.max_entries;
	return map_mmap(fd, info.max_entries * sizeof(struct fsn_stat), ret_stats);
}

uint64_t counters_sum(const struct counters_of *c, uint32_t fn, size_t offset)
{
	uint64_t sum = 0;

	for (uint32_t row = fn; row < c->row_cnt; row += c->fn_cnt) {
		const char *n = (const char *)&c->stat[row].n;

		sum += __atomic_load_n((const uint64_t *)(n + offset), __ATOMIC_RELAXED);
	}
	return sum;
}

#define SUM_OF(c, fn, name) counters_sum(c, fn, offsetof(struct fsn_counts, name))

static void runs_add(uint64_t *ns, int *cnt, uint64_t took_ns, uint64_t hits)
{
	if (hits && *cnt < RUNS_MAX)
		ns[(*cnt)++] = took_ns / hits;
}

void runs_watch(const struct counters_of *c, uint32_t fn, struct runs *runs,
	void (*call)(void *arg), void *arg)
{
	uint64_t entry_ns = SUM_OF(c, fn, entry_ns), entry_runs = SUM_OF(c, fn, entry_runs),
		 end_ns = SUM_OF(c, fn, end_ns), end_runs = SUM_OF(c, fn, end_runs);

	call(arg);
	runs_add(runs->entry_ns, &runs->entry_cnt, SUM_OF(c, fn, entry_ns) - entry_ns,
		SUM_OF(c, fn, entry_runs) - entry_runs);
	runs_add(runs->end_ns, &runs->end_cnt, SUM_OF(c, fn, end_ns) - end_ns,
		SUM_OF(c, fn, end_runs) - end_runs);
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t lower_quartile(uint64_t *values, int cnt)
{
	qsort(values, cnt, sizeof(*values), compare_u64);
	return cnt ? values[cnt / 4] : 0;
}

/* A clock may have steps of 10 ns, so that one of the values alone says little. */
static uint64_t lower_mean(uint64_t *values, int cnt)
{
	uint64_t sum = 0;
	int half = (cnt + 1) / 2;

	qsort(values, cnt, sizeof(*values), compare_u64);
	for (int i = 0; i < half; i++)
		sum += values[i];
	return half ? sum / half : 0;
}

uint64_t runs_usual(struct runs *runs)
{
	return lower_mean(runs->entry_ns, runs->entry_cnt) +
		lower_mean(runs->end_ns, runs->end_cnt);
}
