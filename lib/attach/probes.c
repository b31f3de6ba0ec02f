// SPDX-License-Identifier: BSD-2-Clause
// Offsets and cookies of every probe.
#include <errno.h>
#include <string.h>

#include "attach/probes.h"
#include "pins/breaks.h"

static struct probe_list *list_of(
	struct probes *p, const struct draft *draft, uint32_t lib, enum engine_prog prog)
{
	return &p->lists[prog * draft->object_cnt + lib];
}

static int list_add(
	struct probes *p, struct probe_list *list, uint64_t offset, uint64_t cookie)
{
	unsigned long *offsets =
		array_grow(list->offsets, list->probes.cnt, sizeof(*offsets));
	uint64_t *cookies;

	if (offsets)
		list->offsets = offsets;
	cookies = array_grow(list->cookies, list->probes.cnt, sizeof(*cookies));
	if (cookies)
		list->cookies = cookies;
	if (!offsets || !cookies)
		return -ENOMEM;
	offsets[list->probes.cnt] = offset;
	cookies[list->probes.cnt++] = cookie;
	p->total++;
	return 0;
}

static uint64_t cookie_of(uint32_t fn, enum fsn_kind kind)
{
	return fn | (uint64_t)kind << FSN_COOKIE_KIND_SHIFT;
}

/* The function's code, seen from an indirect jump in it. */
static int add_jump(
	struct probes *p, const struct plan *plan, uint64_t at, uint64_t *cookie)
{
	struct fsn_jump *more;

	if (p->jump_cnt >= FSN_JUMPS_MAX)
		return -E2BIG;
	more = array_grow(p->jumps, p->jump_cnt, sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->jumps = more;
	memset(&more[p->jump_cnt], 0, sizeof(*more));
	for (size_t i = 0; i < plan->range_cnt; i++) {
		more[p->jump_cnt].lo[i] = plan->ranges[i].start - at;
		more[p->jump_cnt].hi[i] = plan->ranges[i].end - at;
	}
	*cookie |= (uint64_t)p->jump_cnt++ << FSN_COOKIE_MORE_SHIFT;
	return 0;
}

/* What stands in the cookie of a jump that is followed. */
static uint64_t leads_to(
	struct probes *p, const struct follow *follow, const struct plan_end *end)
{
	struct follow_to to;

	if (!follow_end(follow, end, &to))
		return 0;
	p->follows = true;
	return (uint64_t)(to.no + 1) << FSN_COOKIE_MORE_SHIFT |
	       (uint64_t)to.entry << FSN_COOKIE_WAIT_SHIFT;
}

/* Whose end it is: a function, or a place that calls are followed to. */
struct ended {
	uint32_t no;
	bool led; /* calls are followed to it */
	const struct plan *plan;
	const struct object *object;
	const struct follow *follow;
};

static int add_end(struct probes *p, struct probe_list *list, const struct ended *of,
	const struct plan_end *end)
{
	static const enum fsn_kind kinds[] = {
		[PLAN_END_RET] = FSN_END,
		[PLAN_END_JMP] = FSN_END_JUMP,
		[PLAN_END_JCC] = FSN_END_JCC,
		[PLAN_END_JMP_REG] = FSN_END_REG,
	};
	uint64_t offset, cookie = cookie_of(of->no, kinds[end->kind]);
	int code = 0;

	if (elf_file_addr_to_offset(of->object->elf, end->addr, &offset))
		return -ERANGE;
	cookie |= (uint64_t)end->cond << FSN_COOKIE_COND_SHIFT;
	cookie |= (uint64_t)end->reg << FSN_COOKIE_REG_SHIFT;
	cookie |= (uint64_t)(end->bit & 63) << FSN_COOKIE_BIT_SHIFT;
	cookie |= (uint64_t)(end->width == 64) << FSN_COOKIE_WIDE_SHIFT;
	if (end->kind == PLAN_END_RET)
		cookie |= (uint64_t)of->led << FSN_COOKIE_MORE_SHIFT;
	else if (end->kind == PLAN_END_JMP_REG)
		code = add_jump(p, of->plan, end->addr, &cookie);
	else
		cookie |= leads_to(p, of->follow, end);
	return code ? code : list_add(p, list, offset, cookie);
}

static int add_ends(struct probes *p, const struct draft *draft, uint32_t object,
	const struct ended *of)
{
	int code = 0;

	for (size_t i = 0; !code && i < of->plan->end_cnt; i++)
		code = add_end(
			p, list_of(p, draft, object, ENGINE_END), of, &of->plan->ends[i]);
	return code;
}

static int add_func(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *f = &draft->targets[fn];
	const struct follow *follow = jumps_of(draft, f->object);
	struct ended of = { fn, follow_leads_to(follow, &f->plan), &f->plan, f->object, follow };
	uint64_t led = (uint64_t)of.led << FSN_COOKIE_MORE_SHIFT;
	uint32_t lib = f->object_index;
	int code = 0;

	if (f->forwards)
		return list_add(p, list_of(p, draft, lib, ENGINE_ENTRY), f->site_offset,
			cookie_of(fn, FSN_FORWARD) | leads_to(p, follow, &f->plan.ends[0]));
	if (f->plan.exit == PLAN_EXIT_NONE || f->plan.site_is_end)
		return list_add(p, list_of(p, draft, lib, ENGINE_COUNT), f->site_offset,
			cookie_of(fn, f->plan.site_is_end ? FSN_SAME : FSN_COUNT));
	if (f->plan.exit == PLAN_EXIT_RETURN && mode == LINK_SESSION)
		return list_add(p, list_of(p, draft, lib, ENGINE_SESSION), f->site_offset,
			cookie_of(fn, FSN_ENTRY) | led);
	if (f->plan.exit == PLAN_EXIT_RETURN) {
		code = list_add(p, list_of(p, draft, lib, ENGINE_RETURN), f->site_offset,
			cookie_of(fn, FSN_RETURN) | led);
		return code ? code
			    : list_add(p, list_of(p, draft, lib, ENGINE_ENTRY),
				      f->site_offset, cookie_of(fn, FSN_ENTRY));
	}
	code = add_ends(p, draft, lib, &of);
	return code ? code
		    : list_add(p, list_of(p, draft, lib, ENGINE_ENTRY), f->site_offset,
			      cookie_of(fn, FSN_ENTRY_RET));
}

/* The places that jumps of functions of an object lead to. */
static int add_places(struct probes *p, const struct draft *draft, uint32_t object)
{
	const struct follow *follow = jumps_of(draft, draft->objects[object]);
	int code = 0;

	for (size_t i = 0; !code && i < follow->place_cnt; i++) {
		const struct follow_place *place = &follow->places[i];
		struct ended of = { follow->first + i, true, &place->plan,
			draft->objects[object], follow };
		uint64_t offset;

		code = add_ends(p, draft, object, &of);
		if (code || !place->entry)
			continue;
		code = elf_file_addr_to_offset(of.object->elf, place->plan.site, &offset);
		if (!code)
			code = list_add(p, list_of(p, draft, object, ENGINE_ENTRY), offset,
				cookie_of(of.no, FSN_ARRIVE));
	}
	return code;
}

int probes_new(const struct draft *draft, enum link_mode mode, struct probes *ret_probes,
	struct err *err)
{
	__cleanup(probes_done) struct probes p = {};
	size_t numbered = draft->probed_cnt + draft->place_cnt;
	int code = numbered > FSN_FN_MAX ? -E2BIG : 0;

	p.lists = calloc(draft->object_cnt * ENGINE_PROG_CNT, sizeof(*p.lists));
	if (!p.lists)
		return err_sys(err, -ENOMEM, "cannot list probes");
	p.list_cnt = draft->object_cnt * ENGINE_PROG_CNT;
	for (uint32_t fn = 0; !code && fn < draft->probed_cnt; fn++) {
		code = add_func(&p, draft, fn, mode);
		if (code)
			return err_sys(err, code, "cannot list probes of '%s'",
				draft->targets[fn].name);
	}
	for (uint32_t i = 0; !code && i < draft->object_cnt; i++)
		code = add_places(&p, draft, i);
	if (code)
		return err_sys(err, code, "cannot number %zu functions", numbered);
	for (size_t i = 0; i < p.list_cnt; i++) {
		struct probe_list *list = &p.lists[i];

		list->prog = i / draft->object_cnt;
		list->path = draft->objects[i % draft->object_cnt]->path;
		list->probes.file_fd = elf_file_fd(draft->objects[i % draft->object_cnt]->elf);
		list->probes.offsets = list->offsets;
		list->probes.cookies = list->cookies;
	}
	*ret_probes = p;
	memset(&p, 0, sizeof(p));
	return 0;
}

void probes_done(struct probes *p)
{
	for (size_t i = 0; i < p->list_cnt; i++) {
		free(p->lists[i].offsets);
		free(p->lists[i].cookies);
	}
	free(p->lists);
	free(p->jumps);
}

/* --- written down ---------------------------------------------------------------------------- */

static int compare_offsets(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* All offsets of library @lib, each once: two programs may share a place. */
static int offsets_of(const struct probes *probes, size_t lib, size_t lib_cnt,
	uint64_t **ret_offsets, size_t *ret_cnt)
{
	uint64_t *offsets = calloc(probes->total + 1, sizeof(*offsets));
	size_t cnt = 0, kept = 0;

	if (!offsets)
		return -ENOMEM;
	for (size_t i = lib; i < probes->list_cnt; i += lib_cnt)
		for (size_t k = 0; k < probes->lists[i].probes.cnt; k++)
			offsets[cnt++] = probes->lists[i].offsets[k];
	qsort(offsets, cnt, sizeof(*offsets), compare_offsets);
	for (size_t i = 0; i < cnt; i++)
		if (!kept || offsets[kept - 1] != offsets[i])
			offsets[kept++] = offsets[i];
	*ret_offsets = offsets;
	*ret_cnt = kept;
	return 0;
}

int probes_write_down(const struct probes *p, const struct draft *draft, int dir_fd,
	struct err *err)
{
	_cleanup_free_ struct breaks_file *files = calloc(draft->object_cnt + 1, sizeof(*files));
	int code = files ? 0 : err_sys(err, -ENOMEM, "cannot write down the probes");

	for (size_t i = 0; !code && i < draft->object_cnt; i++) {
		const struct elf_info *info = elf_file_info(draft->objects[i]->elf);
		uint64_t *offsets = NULL;
		size_t cnt = 0;

		if (offsets_of(p, i, draft->object_cnt, &offsets, &cnt))
			code = err_sys(err, -ENOMEM, "cannot write down the probes");
		files[i] = (struct breaks_file) { info->dev, info->ino, info->size,
			info->ctime_ns, info->overlay, draft->objects[i]->path, offsets, cnt };
	}
	if (!code)
		code = breaks_write(files, draft->object_cnt, dir_fd, err);
	for (size_t i = 0; files && i < draft->object_cnt; i++)
		free((void *)files[i].offsets);
	return code;
}
