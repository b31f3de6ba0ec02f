// SPDX-License-Identifier: BSD-2-Clause
// The bandwidth of collectives: what NCCL's calls offered to a communicator, by the time that GPUs
// took for their kernels. What is whose is told by process, device and the collective's name; where
// that does not tell it, nothing is.
#include <string.h>

#include "show/stats.h"

/* As nccl-tests have it: what of n ranks counts once, and what of that goes over a link. */
struct collective {
	const char *func, *kernel;
	bool of_all; /* what a rank offers is one part of n */
	double (*links)(double n);
};

static double links_both_ways(double n)
{
	return 2 * (n - 1) / n;
}

static double links_but_own(double n)
{
	return (n - 1) / n;
}

static double links_all(double n)
{
	(void)n;
	return 1;
}

static const struct collective collectives[] = {
	{ "ncclAllReduce", "AllReduce", false, links_both_ways },
	{ "ncclAllGather", "AllGather", true, links_but_own },
	{ "ncclReduceScatter", "ReduceScatter", true, links_but_own },
	{ "ncclBroadcast", "Broadcast", false, links_all },
	{ "ncclBcast", "Broadcast", false, links_all },
	{ "ncclReduce", "Reduce", false, links_all },
};

static const struct collective *collective_of(const struct report_group *rg, uint32_t fn)
{
	const char *name = group_func(rg->s->group, fn).name;

	for (size_t i = 0; i < ARRAY_SIZE(collectives); i++)
		if (!strcmp(name, collectives[i].func))
			return &collectives[i];
	return NULL;
}

/* "ncclDevKernel_AllReduce_Sum_f32_RING_LL"; before 2.19 "ncclKernel_AllReduce_RING_LL_Sum_float". */
static bool is_kernel_of(const char *kernel, const struct collective *c)
{
	static const char *const begins[] = { "ncclDevKernel_", "ncclKernel_" };

	for (size_t i = 0; kernel && i < ARRAY_SIZE(begins); i++) {
		size_t len = strlen(begins[i]), of = strlen(c->kernel);

		if (!strncmp(kernel, begins[i], len) && !strncmp(kernel + len, c->kernel, of))
			return !kernel[len + of] || strchr("_(", kernel[len + of]);
	}
	return false;
}

/* A row's communicator, or NULL: it has none, or what can be none. */
static const struct fsn_communicator *communicator_of(
	const struct report_group *rg, uint32_t fn, const struct stats_row *row)
{
	for (size_t i = 0; i < rg->keys.key_cnt; i++) {
		const struct fsn_communicator *c = (const void *)stats_row_text(row, i);

		if (rg->keys.funcs[fn].key[i].by == FSN_BY_COMMUNICATOR)
			return row->hidden & 1U << i || !c->ranks ? NULL : c;
	}
	return NULL;
}

static const uint64_t *bytes_of(
	const struct report_group *rg, uint32_t fn, const struct stats_row *row)
{
	for (size_t i = 0; i < rg->keys.sum_cnt; i++)
		if (sum_is_bytes(rg->keys.sum[i]) &&
			rg->keys.funcs[fn].sum[i].by != FSN_BY_NONE)
			return &row->sum[i];
	return NULL;
}

/* --- on the GPU -------------------------------------------------------------------------------- */

static bool is_on_device(const struct report_group *rg, const struct stats_row *row, int device)
{
	for (size_t i = 0; i < rg->keys.key_cnt; i++)
		if (!strcmp(rg->keys.key[i], "device"))
			return (int)stats_row_word(row, i) == device;
	return true;
}

/* What a process' kernels of @c had on @device. */
static struct fsn_proc_counts spent_on(
	const struct report *r, const struct collective *c, pid_t pid, int device)
{
	struct fsn_proc_counts spent = {};

	for (size_t g = 0; g < r->cnt; g++) {
		const struct report_group *rg = &r->group[g];

		for (size_t f = 0; group_info(rg->s->group).gpu && f < rg->s->func_cnt; f++)
			for (size_t i = 0; i < rg->s->funcs[f].row_cnt; i++) {
				const struct stats_row *row = &rg->s->funcs[f].rows[i];

				if (row->pid != pid || !is_kernel_of(row->kernel, c) ||
					!is_on_device(rg, row, device))
					continue;
				spent.calls += row->n.calls;
				spent.returns += row->n.returns;
				spent.total_ns += row->n.total_ns;
			}
	}
	return spent;
}

/* Whether the same kernels are another communicator's, too. */
static bool is_shared(const struct report_group *rg, const struct collective *c,
	const struct stats_row *row, const struct fsn_communicator *own)
{
	for (size_t f = 0; f < rg->s->func_cnt; f++) {
		const struct stats_func *func = &rg->s->funcs[f];
		const struct collective *other = collective_of(rg, func->fn);

		for (size_t i = 0; other && !strcmp(other->kernel, c->kernel) && i < func->row_cnt; i++) {
			const struct fsn_communicator *with =
				communicator_of(rg, func->fn, &func->rows[i]);

			if (with && func->rows[i].pid == row->pid && with->device == own->device &&
				(with->hash != own->hash || other != c))
				return true;
		}
	}
	return false;
}

/* --- the table --------------------------------------------------------------------------------- */

static const char *why_unknown(bool shared, const struct fsn_proc_counts *spent, uint64_t calls)
{
	if (!spent->calls)
		return "none of its kernels was seen: attach gpu as well, before the job begins";
	if (shared)
		return "its device has other communicators: whose kernels are whose is not known";
	if (spent->calls > calls)
		return "more kernels than calls: those of graphs, or from before, have no bytes";
	return spent->calls != spent->returns || !spent->total_ns ? "the driver has lost times" : NULL;
}

static void fill_row(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct stats_func *f, const struct stats_row *row)
{
	const struct collective *c = collective_of(rg, f->fn);
	const struct fsn_communicator *comm = communicator_of(rg, f->fn, row);
	const struct group_func func = group_func(rg->s->group, f->fn);
	const uint64_t *bytes = bytes_of(rg, f->fn, row);
	struct fsn_proc_counts spent;
	const char *why;
	double pace;

	if (!comm || !bytes || !c)
		return;
	spent = spent_on(r, c, row->pid, comm->device);
	why = why_unknown(is_shared(rg, c, row, comm), &spent, row->n.calls);
	pace = why ? 0 : *bytes * (c->of_all ? comm->ranks : 1.0) * 1e9 / spent.total_ns;
	grid_text(grid, func.name);
	grid_text(grid, func.library);
	grid_textf(grid, "%d", row->pid);
	grid_textf(grid, "%llx %d/%d", comm->hash, comm->rank, comm->ranks);
	grid_count(grid, true, row->n.calls);
	grid_count(grid, true, *bytes);
	grid_count(grid, true, spent.calls);
	grid_ns(grid, spent.returns, spent.total_ns);
	grid_real(grid, CELL_RATE, !why, pace);
	grid_real(grid, CELL_RATE, !why, pace * c->links(comm->ranks));
	if (why)
		grid_note(grid, why);
}

void fill_bandwidth(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	for (size_t i = 0; rg->keys.funcs && i < rg->func_cnt; i++)
		for (size_t k = 0; k < rg->funcs[i]->row_cnt; k++)
			fill_row(grid, r, rg, rg->funcs[i], &rg->funcs[i]->rows[k]);
}
