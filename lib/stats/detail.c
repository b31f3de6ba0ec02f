// SPDX-License-Identifier: BSD-2-Clause
// Return codes, processes and slow calls: records found by key.
#include <errno.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>

#include "base/util.h"
#include "group/types.h"
#include "internal.h"

#define CHUNK 1024

/* --- return codes --------------------------------------------------------------------------- */

static int compare_codes(const void *a, const void *b)
{
	const struct stats_code *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

static int add_code(struct stats_func *f, int64_t code, uint64_t count)
{
	struct stats_code *more;

	for (size_t i = 0; i < f->code_cnt; i++)
		if (f->codes[i].code == code) {
			f->codes[i].count += count;
			return 0;
		}
	more = array_grow(f->codes, f->code_cnt, sizeof(*more));
	if (!more)
		return -ENOMEM;
	f->codes = more;
	more[f->code_cnt++] = (struct stats_code){ .code = code, .count = count };
	return 0;
}

/* Copies: types are read only where there are codes. */
static int name_codes(const struct types *types, struct stats_func *f)
{
	const struct type_codes *codes = types_of(types, f->fn)->ret_codes;

	for (size_t i = 0; i < f->code_cnt; i++) {
		const struct type_code *code = type_code_find(codes, f->codes[i].code);

		f->codes[i].name = code ? strdup(code->name) : NULL;
		if (code && !f->codes[i].name)
			return -ENOMEM;
	}
	return 0;
}

int stats_read_codes(
	const struct group *g, const struct stats_view *view, struct stats *s)
{
	_cleanup_types_ struct types *types = NULL;
	int fd = g->fd[MAPID_CODES], code = 0;
	struct fsn_code key, *from = NULL;
	uint64_t count;

	while (!code && bpf_map_get_next_key(fd, from, &key) == 0) {
		from = &key;
		if (key.fn >= s->func_cnt || !view_has(view, key.epoch) ||
			bpf_map_lookup_elem(fd, &key, &count))
			continue;
		code = add_code(&s->funcs[key.fn], key.code, count);
	}
	for (size_t i = 0; !code && i < s->func_cnt; i++) {
		struct stats_func *f = &s->funcs[i];

		if (!f->code_cnt)
			continue;
		qsort(f->codes, f->code_cnt, sizeof(*f->codes), compare_codes);
		if (!types)
			code = types_read(g, &types, NULL);
		if (!code)
			code = name_codes(types, f);
	}
	return code;
}

/* --- processes ------------------------------------------------------------------------------ */

static int compare_procs(const void *a, const void *b)
{
	const struct stats_proc *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static int add_proc(struct stats_func *f, const struct fsn_proc *p)
{
	struct stats_proc *more = array_grow(f->procs, f->proc_cnt, sizeof(*more));
	struct stats_proc *proc;

	if (!more)
		return -ENOMEM;
	f->procs = more;
	proc = &more[f->proc_cnt++];
	*proc = (struct stats_proc) { .pid = procs_pid(p->key),
		.start_ns = p->start,
		.n = p->n,
		.nested = f->nested };
	memcpy(proc->comm, p->comm, sizeof(p->comm) - 1);
	return 0;
}

/* A process has a record for each shard of the CPUs, and each epoch. */
static void merge_procs(struct stats_func *f)
{
	size_t kept = 0;

	qsort(f->procs, f->proc_cnt, sizeof(*f->procs), compare_procs);
	for (size_t i = 1; i < f->proc_cnt; i++) {
		struct stats_proc *to = &f->procs[kept], *from = &f->procs[i];

		if (compare_procs(to, from)) {
			f->procs[++kept] = *from;
			continue;
		}
		proc_counts_add(&to->n, &from->n);
	}
	f->proc_cnt = kept + 1;
	for (size_t i = 0; i < f->proc_cnt; i++)
		f->procs[i].n.total_ns = stats_signed(f->procs[i].n.total_ns);
}

/* A record, or, if it has no process, the row of those that have ended. */
static int take_proc(const struct stats_view *view, struct stats *s, const struct fsn_proc *p)
{
	uint32_t fn = procs_fn(p->key);

	if (!procs_counts(view, p->key) || fn >= s->func_cnt)
		return 0;
	if (procs_pid(p->key))
		return add_proc(&s->funcs[fn], p);
	proc_counts_add(&s->funcs[fn].ended.n, &p->n);
	return 0;
}

static int take_procs(const struct group *g, const struct stats_view *view, struct stats *s,
	uint32_t first, uint32_t cnt)
{
	_cleanup_free_ struct fsn_proc *chunk = calloc(CHUNK, sizeof(*chunk));
	uint32_t n;
	int code = 0;

	if (!chunk)
		return -ENOMEM;
	for (uint32_t at = 0; !code && at < cnt; at += n) {
		n = cnt - at < CHUNK ? cnt - at : CHUNK;
		code = map_read(g->fd[MAPID_PROCS], first + at, n, sizeof(*chunk), chunk);
		for (uint32_t i = 0; !code && i < n; i++)
			code = take_proc(view, s, &chunk[i]);
	}
	return code;
}

int stats_read_procs(
	const struct group *g, const struct stats_view *view, struct stats *s)
{
	uint32_t cnt, fn_cnt = g->meta.fn_cnt;
	int code;

	if (!(g->meta.options & FSN_OPT_PROCESSES))
		return 0;
	code = procs_cnt(g, &cnt);
	if (!code)
		code = take_procs(g, view, s, 0, cnt);
	if (!code)
		code = take_procs(g, view, s, cnt + (view->ctl.fold & 1) * fn_cnt, fn_cnt);
	for (size_t i = 0; !code && i < s->func_cnt; i++) {
		if (s->funcs[i].proc_cnt)
			merge_procs(&s->funcs[i]);
		s->funcs[i].ended.nested = s->funcs[i].nested;
		s->funcs[i].ended.n.total_ns = stats_signed(s->funcs[i].ended.n.total_ns);
	}
	return code;
}

/* --- slow calls ----------------------------------------------------------------------------- */

static int compare_slow(const void *a, const void *b)
{
	const struct fsn_slow *x = a, *y = b;

	return (x->seq > y->seq) - (x->seq < y->seq);
}

int stats_slow_calls(const struct group *g, struct fsn_slow **ret_calls, size_t *ret_cnt,
	struct err *err)
{
	_cleanup_free_ struct fsn_slow *calls = calloc(FSN_SLOW_CNT, sizeof(*calls));
	int code, fd = group_map_fd(g, MAPID_SLOW, "slow calls", err);
	struct fsn_ctl ctl;
	size_t cnt = 0;

	code = fd < 0 ? fd : group_ctl(g, &ctl, err);
	if (code)
		return code;
	code = calls ? map_read(fd, 0, FSN_SLOW_CNT, sizeof(*calls), calls) : -ENOMEM;
	if (code)
		return err_sys(
			err, code, "cannot read slow calls of group '%s'", g->name);
	for (size_t i = 0; i < FSN_SLOW_CNT; i++) {
		struct fsn_slow *c = &calls[i];

		if (!c->seq || c->call.fn >= g->meta.fn_cnt ||
			c->seq - 1 < ctl.slow_base[FSN_BASE_INDEX(ctl.base)])
			continue;
		c->call.comm[sizeof(c->call.comm) - 1] = '\0';
		calls[cnt++] = *c;
	}
	qsort(calls, cnt, sizeof(*calls), compare_slow);
	*ret_calls = TAKE_PTR(calls);
	*ret_cnt = cnt;
	return 0;
}
