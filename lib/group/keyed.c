// SPDX-License-Identifier: BSD-2-Clause
// By what a group's calls are told apart, as its maps say.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "group/keys.h"
#include "proc/proc.h"
#include "group/records.h"

static struct func_part part_of(const struct fsn_part *p)
{
	return (struct func_part) { p->what, p->is_signed, p->what == FSN_BY_MEMBER && p->type,
		p->arg, p->sizes };
}

static int keys_make(const struct group *g, const struct fsn_keyed *keyed, struct group_keys *k)
{
	k->funcs = xcalloc(g->meta.fn_cnt, sizeof(*k->funcs));
	for (uint32_t fn = 0; fn < g->meta.fn_cnt; fn++) {
		struct func_keys *f = &k->funcs[fn];

		f->on = keyed[fn].on;
		for (size_t i = 0; i < FSN_KEYS; i++)
			f->key[i] = part_of(&keyed[fn].key[i]);
		for (size_t i = 0; i < FSN_SUMS; i++)
			f->sum[i] = part_of(&keyed[fn].sum[i]);
		for (size_t i = 0; i < FSN_KEYS; i++)
			if (f->key[i].by >= FSN_BY_CNT || f->key[i].arg > g->funcs[fn].arg_cnt)
				return -EPROTO;
	}
	return 0;
}

/* A group may be another's: documents have names as they are. */
static bool is_plain(const char *name)
{
	return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
					   "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789->.[]")];
}

int group_keys_read(const struct group *g, struct group_keys *ret_keys, struct err *err)
{
	_cleanup_free_ struct fsn_keyed *keyed = NULL;
	int code = 0;

	*ret_keys = (struct group_keys) { .key_cnt = g->meta.key_cnt,
		.sum_cnt = g->meta.sum_cnt };
	if (!g->meta.row_cnt)
		return 0;
	if (g->meta.key_cnt > FSN_KEYS || g->meta.sum_cnt > FSN_SUMS)
		code = -EPROTO;
	for (size_t i = 0; !code && i < g->meta.key_cnt; i++)
		ret_keys->key[i] = group_text(g, g->meta.key[i]);
	for (size_t i = 0; !code && i < g->meta.sum_cnt; i++)
		ret_keys->sum[i] = group_text(g, g->meta.sum[i]);
	for (size_t i = 0; !code && i < g->meta.key_cnt; i++)
		code = is_plain(ret_keys->key[i]) ? 0 : -EPROTO;
	for (size_t i = 0; !code && i < g->meta.sum_cnt; i++)
		code = is_plain(ret_keys->sum[i]) ? 0 : -EPROTO;
	if (!code) {
		keyed = xcalloc(g->meta.fn_cnt, sizeof(*keyed));
		code = map_read_fixed(group_fd(g, MAPID_KEYED_BY), 0, g->meta.fn_cnt,
			sizeof(*keyed), keyed);
	}
	if (!code)
		code = keys_make(g, keyed, ret_keys);
	if (!code && g->meta.key_cgroup)
		ret_keys->cgroups = cgroups_new("/proc");
	if (!code && g->meta.key_cgroup && !ret_keys->cgroups)
		code = -ENOMEM;
	return code ? err_sys(err, code, "cannot read keys of group '%s'", g->name) : 0;
}

void group_keys_done(struct group_keys *k)
{
	free(k->funcs);
	cgroups_free(k->cgroups);
}

void group_key_spread(const struct group *g, const struct fsn_key *from, struct fsn_key *to)
{
	if (g->meta.key_wide)
		*to = *from;
	else
		for (size_t i = 0; i < FSN_KEYS && i < g->meta.key_cnt; i++)
			to->word[i * FSN_KEY_WIDE] = from->word[i];
}

bool func_sum_of(const struct func_part *sum, const struct func_types *types,
	const struct call *call, const struct fsn_more *more, uint64_t *ret_n)
{
	uint64_t type, size;

	if (sum->by == FSN_BY_NONE || sum->by == FSN_BY_PRODUCT ||
		!call_arg_number(types, sum->arg, call, more, ret_n))
		return false;
	if (sum->by != FSN_BY_BYTES)
		return true;
	if (!call_arg_number(types, sum->arg + 1, call, more, &type))
		return false;
	size = type < PRESET_SIZES ? sum->sizes >> 4 * type & 15 : 0;
	*ret_n = size ? *ret_n << (size - 1) : 0;
	return true;
}
