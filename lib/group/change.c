// SPDX-License-Identifier: BSD-2-Clause
// Changing which calls of a running group count, without losing one that counts before and after.
#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "group/condition.h"
#include "group/filter.h"
#include "group/records.h"

/* What a change of the condition goes through. */
struct rewrite {
	const struct group *g;
	const struct condition *c;
	struct fsn_cond *conds;
	struct fsn_said before;
	bool said; /* the new one stands there already */
};

static void rewrite_done(struct rewrite *r)
{
	free(r->conds);
}

static int bind_condition(struct rewrite *r, size_t *ret_never, struct err *err)
{
	r->conds = calloc(r->g->meta.fn_cnt + 1, sizeof(*r->conds));
	if (!r->conds)
		return err_sys(err, -ENOMEM, "cannot change group '%s'", r->g->name);
	return group_bind_condition(r->g, r->c, r->conds, ret_never, err);
}

int group_check_change(const struct group *g, const struct group_change *change,
	size_t *ret_never, struct err *err)
{
	__cleanup(rewrite_done) struct rewrite r = { .g = g, .c = change->condition };
	size_t never = 0;
	int code = 0;

	if (change->set_pids && g->meta.options & FSN_OPT_LINK_PID) {
		err_set(err, -EBUSY, "group '%s' has probes in the processes of --pid only",
			g->name);
		return err_hint(err, "attach it again with --replace");
	}
	if (r.c && r.c->term_cnt)
		code = bind_condition(&r, &never, err);
	if (!code && ret_never)
		*ret_never = never;
	return code ? code : filter_check(change->filter, err);
}

static int write_said(const struct group *g, const struct fsn_said *said, struct err *err)
{
	uint32_t zero = 0;

	if (!bpf_map_update_elem(g->fd[MAPID_SAID], &zero, said, 0))
		return 0;
	return err_sys(err, -errno, "cannot change group '%s'", g->name);
}

/* Writes the half that no program looks at; *ret_set is what makes them look. */
static int write_condition(struct rewrite *r, uint32_t on, uint32_t *ret_set, struct err *err)
{
	const struct group *g = r->g;
	bool second = on & FSN_FILTER_IF && !(on & FSN_FILTER_IF2);
	uint32_t zero = 0, cnt = g->meta.fn_cnt;
	struct fsn_said said;
	size_t never;
	int code;

	*ret_set = 0;
	if (r->c->term_cnt) {
		code = bind_condition(r, &never, err);
		if (code)
			return code;
		code = map_write(g->fd[MAPID_CONDS], second ? cnt : 0, cnt,
			sizeof(*r->conds), r->conds);
		if (code)
			return err_sys(err, code, "cannot change group '%s'", g->name);
		*ret_set = FSN_FILTER_IF | (second ? FSN_FILTER_IF2 : 0);
	}
	if (bpf_map_lookup_elem(g->fd[MAPID_SAID], &zero, &r->before))
		return err_sys(err, -errno, "cannot change group '%s'", g->name);
	said = r->before;
	memcpy(said.condition, r->c->text, sizeof(said.condition));
	code = write_said(g, &said, err);
	r->said = !code;
	return code;
}

int group_change(const struct group *g, const struct group_change *change, struct err *err)
{
	const struct filter_maps maps = { .pids = g->fd[MAPID_PIDS],
		.comms = g->fd[MAPID_COMMS],
		.uids = g->fd[MAPID_UIDS] };
	uint32_t which = (change->set_pids ? FSN_FILTER_PID : 0) |
		(change->set_comms ? FSN_FILTER_COMM : 0) |
		(change->set_uids ? FSN_FILTER_UID : 0) |
		(change->condition ? FSN_FILTER_IF | FSN_FILTER_IF2 : 0);
	__cleanup(rewrite_done) struct rewrite r = { .g = g, .c = change->condition };
	_cleanup_mapping_ struct map_mapping map = {};
	uint32_t set = 0;
	struct fsn_ctl *ctl;
	int code = group_check_change(g, change, NULL, err);

	if (code)
		return code;
	code = map_mmap(g->fd[MAPID_CTL], sizeof(*ctl), &map);
	if (code)
		return err_sys(err, code, "cannot change group '%s'", g->name);
	ctl = map.addr;
	if (r.c)
		code = write_condition(&r, ctl->on, &set, err);
	if (!code)
		code = filter_replace(change->filter, &maps, which, set, &ctl->on, err);
	if (code && r.said)
		write_said(g, &r.before, NULL);
	/* A program that looks at the old half would see what the next change writes there. */
	if (!code && r.c)
		group_wait_for_programs(g);
	return code;
}
