// SPDX-License-Identifier: BSD-2-Clause
// The overhead of a group's probes: accounted by the kernel, or estimated by calibration.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "internal.h"
#include "kernel/kernel.h"

static bool accounting_is_on(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/bpf_stats_enabled", "re");

	return f && fgetc(f) == '1';
}

struct progs {
	__u32 *id;
	size_t cnt;
};

static void add_prog_of(struct progs *progs, int dir_fd, const char *name)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, name, 0);
	struct link_info info;
	__u32 *grown;

	if (fd < 0 || link_get_info(fd, &info))
		return;
	for (size_t i = 0; i < progs->cnt; i++)
		if (progs->id[i] == info.prog_id)
			return;
	grown = array_grow(progs->id, progs->cnt, sizeof(*grown));
	if (!grown)
		return;
	progs->id = grown;
	progs->id[progs->cnt++] = info.prog_id;
}

static void find_progs(struct progs *progs, int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	while (dir && (d = readdir(dir)))
		if (!strncmp(d->d_name, "link_", 5))
			add_prog_of(progs, dir_fd, d->d_name);
}

static void progs_done(struct progs *progs)
{
	free(progs->id);
}

static bool prog_info(__u32 id, struct bpf_prog_info *ret_info)
{
	_cleanup_close_ int fd = bpf_prog_get_fd_by_id(id);
	__u32 len = sizeof(*ret_info);

	memset(ret_info, 0, sizeof(*ret_info));
	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, ret_info, &len);
}

bool stats_missed(const struct group *g, uint64_t *ret_missed)
{
	__cleanup(progs_done) struct progs progs = {};
	struct bpf_prog_info info;
	uint64_t missed = 0;

	find_progs(&progs, group_dir_fd(g));
	for (size_t i = 0; i < progs.cnt; i++) {
		if (!prog_info(progs.id[i], &info))
			return false;
		missed += info.recursion_misses;
	}
	*ret_missed = missed;
	return progs.cnt;
}

static bool read_accounted(const struct group *group, uint64_t *ns)
{
	__cleanup(progs_done) struct progs progs = {};
	struct bpf_prog_info info;

	find_progs(&progs, group_dir_fd(group));
	for (size_t i = 0; i < progs.cnt; i++)
		if (prog_info(progs.id[i], &info))
			*ns += info.run_time_ns;
		else
			return false;
	return progs.cnt;
}

/* Returns the cost of an exit probe. */
static uint64_t end_ns(const uint32_t *whole_ns, enum price_end end)
{
	return whole_ns[end] > whole_ns[PRICE_COUNT] ? whole_ns[end] - whole_ns[PRICE_COUNT] : 0;
}

/* Returns the extra cost of a probe on an instruction that is single-stepped. */
static uint64_t step_ns(const struct price *price)
{
	uint32_t emulated = price->whole_ns[PRICE_EMULATED][PRICE_COUNT],
		 stepped = price->whole_ns[PRICE_STEPPED][PRICE_COUNT];

	return stepped > emulated ? stepped - emulated : 0;
}

/* Counts hits of exit probes, without returns that another function's probe has observed. */
static uint64_t end_hits(const struct fsn_counts *n)
{
	uint64_t ends = n->returns + n->unmatched + n->strays;

	return ends - (n->led < ends ? n->led : ends);
}

/* Extrapolates the run time of @hits from @runs of them, which took @ns. */
static double run_time(uint64_t hits, uint64_t runs, uint64_t ns)
{
	return runs ? (double)ns / runs * hits : 0;
}

/* Returns the run time of an exit probe during the calibration. */
static double calibrated_end(const uint32_t *run_ns, enum price_end end)
{
	return run_ns[end] ? (double)run_ns[end] - run_ns[PRICE_COUNT] : 0;
}

/* Returns by how much the run time of the BPF programs exceeds the calibration; may be negative. */
static int64_t more_than_calibrated(const uint32_t *run_ns, enum price_end end,
	const struct fsn_counts *n)
{
	uint64_t entries = n->calls + n->aside, ends = end == PRICE_COUNT ? 0 : end_hits(n);
	double ran = run_time(entries, n->entry_runs, n->entry_ns) +
		run_time(ends, n->end_runs, n->end_ns);

	if (!run_ns[PRICE_COUNT] || !n->entry_runs || (ends && !n->end_runs))
		return 0;
	ran -= (double)entries * run_ns[PRICE_COUNT];
	if (end == PRICE_RETURN || end == PRICE_EARLY)
		ran -= ends * calibrated_end(run_ns, end);
	else
		ran -= ends * calibrated_end(run_ns, PRICE_RET);
	if (end != PRICE_COUNT && end != PRICE_RETURN)
		ran -= n->jumped * calibrated_end(run_ns, PRICE_JUMP);
	return ran;
}

static uint64_t cost_of_calibrated(const struct price *price, enum price_site site,
	enum price_end end, const struct fsn_counts *n)
{
	const uint32_t *whole_ns = price->whole_ns[site];
	uint64_t ends = end_hits(n), ns = (n->calls + n->aside) * whole_ns[PRICE_COUNT];

	if (end == PRICE_COUNT)
		return ns;
	ns += n->passed * price->whole_ns[PRICE_EMULATED][PRICE_COUNT] +
		n->stepped * step_ns(price);
	if (end == PRICE_RETURN)
		return ns + ends * end_ns(whole_ns, PRICE_RETURN);
	return ns + n->jumped * end_ns(whole_ns, PRICE_JUMP) +
		ends * end_ns(whole_ns, end == PRICE_EARLY ? end : PRICE_RET);
}

uint64_t cost_of_hits(const struct price *price, enum price_site site, enum price_end end,
	const struct fsn_counts *n)
{
	int64_t ns = cost_of_calibrated(price, site, end, n) + n->walks_ns +
		more_than_calibrated(price->run_ns[site], end, n);

	return ns > 0 ? ns : 0;
}

/* Sets COST_UNKNOWN if neither source can be read. */
static void read_one(struct group *group, bool accounting, struct cost_reading *ret_reading)
{
	struct cost_reading reading = {};
	uint64_t since_ns;

	if (accounting && read_accounted(group, &reading.ns))
		reading.source = COST_ACCOUNTED;
	else if (reading.ns = 0, stats_cost(group, &reading.ns))
		reading.source = COST_CALIBRATED;
	reading.at_ns = clock_ns(CLOCK_MONOTONIC);
	if (reading.source == COST_CALIBRATED && !group_since(group, &since_ns, NULL))
		reading.elapsed_ns = clock_ns(CLOCK_REALTIME) - since_ns;
	if (group->lean)
		group_close_maps(group);
	*ret_reading = reading;
}

void cost_read(struct group *const *groups, size_t cnt, enum cost_span span,
	struct cost_reading *ret_readings)
{
	bool accounting = span == COST_INTERVAL && accounting_is_on();

	memset(ret_readings, 0, cnt * sizeof(*ret_readings));
	for (size_t i = 0; i < cnt; i++)
		if (groups[i])
			read_one(groups[i], accounting, &ret_readings[i]);
}

static struct cost cost_in(enum cost_source source, uint64_t spent_ns, uint64_t ns)
{
	struct cost cost = { .source = source };

	if (source == COST_UNKNOWN || !ns)
		return (struct cost) {};
	cost.ns_per_s = (__uint128_t)spent_ns * 1000000000 / ns;
	return cost;
}

struct cost cost_between(
	const struct cost_reading *before, const struct cost_reading *after)
{
	uint64_t ns = after->at_ns - before->at_ns;

	/* A reset in between has set the calls to 0. */
	if (before->source != after->source || after->ns < before->ns)
		return (struct cost) {};
	return cost_in(after->source, after->ns - before->ns, ns);
}

struct cost cost_since_reset(const struct cost_reading *reading)
{
	/* The system clock may have been set back. */
	if ((int64_t)reading->elapsed_ns <= 0)
		return (struct cost) {};
	return cost_in(reading->source, reading->ns, reading->elapsed_ns);
}

const char *cost_source_name(enum cost_source source)
{
	static const char *const names[] = {
		[COST_ACCOUNTED] = "kernel",
		[COST_CALIBRATED] = "calibration",
	};

	return names[source];
}
