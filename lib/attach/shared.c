// SPDX-License-Identifier: BSD-2-Clause
// Functions that two groups probe: each has the other's programs in its times.
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "group/records.h"
#include "internal.h"

/* What a draft's targets lie in, as groups keep it: by the draft's objects. */
struct places {
	const struct draft *draft;
	struct object_id *ids;
};

/* Whether @lib is object number @object: what is no file is told by the targets' kind alone. */
static bool is_same_object(const struct fsn_lib *lib, const struct places *p, uint32_t object)
{
	return lib->dev == p->ids[object].dev && lib->ino == p->ids[object].ino;
}

static int compare_sites(const void *a, const void *b)
{
	const struct fsn_func *x = a, *y = b;

	return (x->site_offset > y->site_offset) - (x->site_offset < y->site_offset);
}

/* @sorted are the functions of @g by the place of their entry probe. */
static bool is_probed_by(const struct group *g, const struct fsn_func *sorted,
	const struct places *p, const struct target *f)
{
	const struct fsn_func key = { .site_offset = f->site_offset };
	const struct fsn_func *end = sorted + g->meta.fn_cnt,
			      *at = bsearch(&key, sorted, g->meta.fn_cnt, sizeof(*sorted),
				      compare_sites);

	while (at && at > sorted && at[-1].site_offset == f->site_offset)
		at--;
	for (; at && at < end && at->site_offset == f->site_offset; at++)
		if (at->kind == f->kind->number &&
			is_same_object(&g->libs[at->lib], p, f->object_index))
			return true;
	return false;
}

static bool has_object_of(const struct group *g, const struct places *p)
{
	for (uint32_t lib = 0; lib < g->meta.lib_cnt; lib++)
		for (size_t i = 0; i < p->draft->objects.cnt; i++)
			if (is_same_object(&g->libs[lib], p, i))
				return true;
	return false;
}

static size_t count_shared(const struct bpffs *fs, const char *name, const struct places *p)
{
	const struct draft *draft = p->draft;
	_cleanup_free_ struct fsn_func *sorted = NULL;
	_cleanup_group_ struct group *g = NULL;
	size_t cnt = 0;

	if (group_open(fs, name, false, &g, NULL) || !has_object_of(g, p))
		return 0;
	sorted = xcalloc(g->meta.fn_cnt, sizeof(*sorted));
	memcpy(sorted, g->funcs, g->meta.fn_cnt * sizeof(*sorted));
	qsort(sorted, g->meta.fn_cnt, sizeof(*sorted), compare_sites);
	for (size_t i = 0; i < draft->probed_cnt; i++)
		cnt += !draft->targets[i].kind->is_wait && is_probed_by(g, sorted, p, &draft->targets[i]);
	return cnt;
}

void find_shared(const struct bpffs *fs, const struct draft *draft, struct attach_report *report)
{
	_cleanup_free_ struct object_id *ids = xcalloc(draft->objects.cnt + 1, sizeof(*ids));
	const struct places places = { draft, ids };
	_cleanup_names_ char **names = NULL;
	size_t name_cnt = 0;

	report->shared_cnt = 0;
	for (size_t i = 0; i < draft->objects.cnt; i++)
		if (object_identify(draft->objects.object[i], &ids[i], NULL))
			return;
	if (bpffs_groups(fs, &names, &name_cnt, NULL))
		return;
	for (char **name = names; name < names + name_cnt; name++) {
		size_t cnt = strcmp(*name, draft->name) ? count_shared(fs, *name, &places) : 0;

		if (cnt <= report->shared_cnt)
			continue;
		report->shared_cnt = cnt;
		snprintf(report->shared_group, sizeof(report->shared_group), "%s", *name);
	}
}
