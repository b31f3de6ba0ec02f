// SPDX-License-Identifier: BSD-2-Clause
// Functions that two groups probe: each has the other's programs in its times.
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "group/records.h"
#include "internal.h"

/* Whether library @lib of @g is the file of @f. */
static bool is_same_file(const struct group *g, uint32_t lib, const struct target *f)
{
	const struct elf_info *info = f->object->elf ? elf_file_info(f->object->elf) : NULL;

	return info && g->libs[lib].dev == info->dev && g->libs[lib].ino == info->ino;
}

static int compare_sites(const void *a, const void *b)
{
	const struct fsn_func *x = a, *y = b;

	return (x->site_offset > y->site_offset) - (x->site_offset < y->site_offset);
}

/* @sorted are the functions of @g by the place of their entry probe. */
static bool is_probed_by(
	const struct group *g, const struct fsn_func *sorted, const struct target *f)
{
	const struct fsn_func key = { .site_offset = f->site_offset };
	const struct fsn_func *end = sorted + g->meta.fn_cnt,
			      *at = bsearch(&key, sorted, g->meta.fn_cnt, sizeof(*sorted),
				      compare_sites);

	while (at && at > sorted && at[-1].site_offset == f->site_offset)
		at--;
	for (; at && at < end && at->site_offset == f->site_offset; at++)
		if (is_same_file(g, at->lib, f))
			return true;
	return false;
}

static bool has_file_of(const struct group *g, const struct draft *draft)
{
	for (uint32_t lib = 0; lib < g->meta.lib_cnt; lib++)
		for (size_t i = 0; i < draft->objects.cnt; i++) {
			const struct elf_file *elf = draft->objects.object[i]->elf;
			const struct elf_info *info = elf ? elf_file_info(elf) : NULL;

			if (info && g->libs[lib].dev == info->dev && g->libs[lib].ino == info->ino)
				return true;
		}
	return false;
}

static size_t count_shared(const struct bpffs *fs, const char *name, const struct draft *draft)
{
	_cleanup_free_ struct fsn_func *sorted = NULL;
	_cleanup_group_ struct group *g = NULL;
	size_t cnt = 0;

	if (group_open(fs, name, false, &g, NULL) || !has_file_of(g, draft))
		return 0;
	sorted = calloc(g->meta.fn_cnt, sizeof(*sorted));
	if (!sorted)
		return 0;
	memcpy(sorted, g->funcs, g->meta.fn_cnt * sizeof(*sorted));
	qsort(sorted, g->meta.fn_cnt, sizeof(*sorted), compare_sites);
	for (size_t i = 0; i < draft->probed_cnt; i++)
		cnt += is_probed_by(g, sorted, &draft->targets[i]);
	return cnt;
}

void find_shared(const struct bpffs *fs, const struct draft *draft, struct attach_report *report)
{
	_cleanup_names_ char **names = NULL;
	size_t name_cnt = 0;

	report->shared_cnt = 0;
	if (bpffs_groups(fs, &names, &name_cnt, NULL))
		return;
	for (char **name = names; name < names + name_cnt; name++) {
		size_t cnt = strcmp(*name, draft->name) ? count_shared(fs, *name, draft) : 0;

		if (cnt <= report->shared_cnt)
			continue;
		report->shared_cnt = cnt;
		snprintf(report->shared_group, sizeof(report->shared_group), "%s", *name);
	}
}
