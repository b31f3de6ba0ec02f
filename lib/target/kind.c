// SPDX-License-Identifier: BSD-2-Clause
// The kinds of targets that there are, and the probes that they make of a draft.
#include <errno.h>
#include <string.h>

#include "internal.h"
#include "preset/preset.h"
#include "shared/layout.h"
#include "target/kind.h"

/* --- kinds ---------------------------------------------------------------------------------- */

const struct target_kind *const target_kinds[TARGET_CNT] = {
	[TARGET_USER] = &target_user,
	[TARGET_SYSCALL] = &target_syscall,
	[TARGET_USDT] = &target_usdt,
	[TARGET_TRACEPOINT] = &target_tracepoint,
	[TARGET_SPAN] = &target_span,
	[TARGET_KFUNC] = &target_kfunc,
	[TARGET_WAIT] = &target_wait,
	[TARGET_SAMPLE] = &target_sample,
	[TARGET_GPU] = &target_gpu,
};

const struct target_kind *target_kind(unsigned int number)
{
	return target_kinds[number < TARGET_CNT ? number : TARGET_USER];
}

/* Returns the part of @func after @prefix and its colon, or NULL. */
static const char *behind(const char *func, const char *prefix)
{
	size_t len = prefix ? strlen(prefix) : 0;

	return prefix && strncmp(func, prefix, len) == 0 && func[len] == ':' ? func + len + 1
									    : NULL;
}

const char *target_name_in(const struct target_kind *kind, const char *func)
{
	const char *name = behind(func, kind->prefix);

	for (size_t i = 0; !name && i < ARRAY_SIZE(kind->also); i++)
		name = behind(func, kind->also[i]);
	return name ? name : func;
}

const struct target_kind *target_kind_said(const char *func)
{
	for (size_t i = 0; i < TARGET_CNT; i++)
		if (target_name_in(target_kinds[i], func) != func)
			return target_kinds[i];
	return NULL;
}

const struct target_kind *target_kind_of(const char *func)
{
	const struct target_kind *kind = span_end(func) ? &target_span : target_kind_said(func);

	return kind ? kind : &target_user;
}

/* --- by name -------------------------------------------------------------------------------- */

/* Adds each target once, however many requests match it. */
static void lookup_add(struct lookup *l, const struct target *t)
{
	for (size_t i = l->first; i < l->targets->cnt; i++) {
		struct target *other = &l->targets->target[i];

		if (other->offset != t->offset || other->object != t->object)
			continue;
		other->from_pattern &= t->from_pattern;
		return;
	}
	targets_add(l->targets, t);
}

static const char *behind_colon(const char *name)
{
	const char *colon = strchr(name, ':');

	return colon ? colon + 1 : name;
}

static void lookup_suggest(struct lookup *l, const char *name)
{
	suggest_offer(&l->near, name, NULL);
	if (l->kind->catalogue->parents && !strchr(l->text, ':') != !strchr(name, ':') &&
		!l->namesake && !strcmp(behind_colon(l->text), behind_colon(name)))
		l->namesake = name;
}

int lookup_offer(struct lookup *l, const char *name, const void *what, struct err *err)
{
	struct target t = { .request = l->req, .from_pattern = l->glob || l->req->optional };
	int code;

	if (l->suggests) {
		lookup_suggest(l, name);
		return 0;
	}
	if (l->glob ? !pattern_match(&l->pattern, name) : strcmp(name, l->text) != 0)
		return 0;
	code = l->kind->catalogue->make(l, name, what, &t, err);
	l->hits += l->glob || !code;
	/* A pattern skips names whose module was removed meanwhile, and unreadable events. */
	if (code)
		return l->glob && (code == -ENOENT || code == -EBADMSG) ? 0 : code;
	t.site_offset = t.offset;
	t.name = l->req->name && !l->glob ? l->req->name : t.symbol;
	lookup_add(l, &t);
	return 0;
}

static int lookup_none(struct lookup *l, struct err *err)
{
	const struct catalogue *c = l->kind->catalogue;
	char prefix[8], hint[ERR_HINT_LEN];

	err_set(err, -ENOENT, "%s '%s'%s", c->none, l->text, c->none_in);
	snprintf(prefix, sizeof(prefix), "%s:", l->kind->prefix);
	suggest_init(&l->near, l->text);
	l->near.prefix = prefix;
	l->namesake = NULL;
	l->suggests = true;
	(void)!c->names(l, NULL);
	l->suggests = false;
	if (l->namesake)
		return err_hint(err, "did you mean '%s%s'", prefix, l->namesake);
	if (suggest_text(&l->near, hint, sizeof(hint)))
		return err_hint(err, "%s", hint);
	return c->hint ? err_hint(err, "%s", c->hint) : -ENOENT;
}

static int lookup_request(struct lookup *l, struct err *err)
{
	const struct catalogue *c = l->kind->catalogue;
	size_t own = c->own_prefix ? strlen(c->own_prefix) : 0;
	int code;

	l->text = target_name_in(l->kind, l->req->func);
	if (own && !l->req->regex && !strncmp(l->text, c->own_prefix, own))
		l->text += own;
	l->glob = l->req->regex || pattern_is_glob(l->text);
	l->hits = 0;
	code = pattern_init(
		&l->pattern, l->req->regex ? PATTERN_REGEX : PATTERN_GLOB, l->text, err);
	if (!code)
		code = c->names(l, err);
	pattern_done(&l->pattern);
	if (l->hits || (code && code != -ENOENT))
		return code;
	if (!l->req->optional)
		return lookup_none(l, err);
	targets_miss(l->targets, l->req);
	return 0;
}

static int lookup(const struct target_kind *kind, const struct request *const *reqs,
	size_t req_cnt, struct targets *targets, struct err *err)
{
	struct lookup l = { .kind = kind, .targets = targets, .first = targets->cnt };
	int code = kind->catalogue->open ? kind->catalogue->open(&l, err) : 0;

	for (size_t i = 0; !code && i < req_cnt; i++) {
		l.req = reqs[i];
		code = lookup_request(&l, err);
	}
	if (kind->catalogue->close)
		kind->catalogue->close(&l);
	return code;
}

int target_kind_find(const struct target_kind *kind, struct libfind *finder,
	const struct objects *objects, const struct request *const *reqs, size_t req_cnt,
	struct targets *targets, struct err *err)
{
	size_t first = targets->cnt;
	int code = 0;

	if (req_cnt && kind->catalogue)
		code = lookup(kind, reqs, req_cnt, targets, err);
	else if (req_cnt)
		code = kind->find(finder, objects, reqs, req_cnt, targets, err);
	if (code)
		targets_cut(targets, first);
	return code;
}

int target_kind_check_condition(const struct target_kind *kind, struct err *err)
{
	if (!kind->is_wait)
		return 0;
	err_set(err, -EOPNOTSUPP, "--if: what a %s is about is known when it is over", kind->noun);
	return err_hint(err, "use --by to break calls down by it");
}

/* --- events --------------------------------------------------------------------------------- */

void event_declare(
	struct targets *targets, struct preset_func *known, const struct preset_func *said)
{
	struct preset_arg *args;

	known->ret_text = "void";
	known->ret = (struct preset_value) { .kind = TYPE_VOID };
	if (!said || !said->has_args)
		return;
	args = targets_keep(targets, said->arg_cnt * sizeof(*args));
	for (size_t i = 0; i < said->arg_cnt; i++) {
		args[i] = said->args[i];
		args[i].place = i < known->arg_cnt
			? known->args[i].place
			: (struct preset_place) { .where = PLACE_NOWHERE, .words = 1 };
	}
	known->args = args;
	known->arg_cnt = said->arg_cnt;
}

static int link_sites(struct probes *p, const struct draft *draft, uint32_t fn,
	const struct event *event, enum fsn_kind kind)
{
	uint32_t object = objects_find(&draft->objects, event->object);
	enum engine_prog prog = event->object->elf ? ENGINE_USDT : ENGINE_TRACE;
	int code = 0;

	for (size_t i = 0; !code && i < event->site_cnt; i++)
		code = probes_add_event(p, object, prog, &event->sites[i], fn, kind);
	return code;
}

int event_link(struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];
	bool span = t->plan.exit != PLAN_EXIT_NONE;
	int code = span ? link_sites(p, draft, fn, t->until, FSN_END) : 0;

	p->spans |= span;
	return code ? code : link_sites(p, draft, fn, t->event, span ? FSN_ENTRY : FSN_SAME);
}

void event_plan(
	struct plan *plan, enum plan_exit exit, const char *site_why, const char *exit_why)
{
	plan->site_emulated = true;
	plan->exit = exit;
	snprintf(plan->site_why, sizeof(plan->site_why), "%s", site_why);
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s", exit_why);
}

void event_plan_call(
	struct plan *plan, const struct plan_rules *rules, const char *site_why, const char *exit_why)
{
	if (rules->exit == PLAN_MODE_NONE)
		event_plan(plan, PLAN_EXIT_NONE, site_why,
			"only counted: --count or --probe exit=none");
	else
		event_plan(plan, PLAN_EXIT_RETURN, site_why, exit_why);
}

/* --- offsets and cookies of every probe ----------------------------------------------------- */

static void list_add(struct probes *p, struct probe_list *list, const struct event_site *site,
	uint64_t cookie)
{
	size_t n = list->probes.cnt;

	list->offsets = array_grow(list->offsets, n, sizeof(*list->offsets));
	list->semaphores = array_grow(list->semaphores, n, sizeof(*list->semaphores));
	list->cookies = array_grow(list->cookies, n, sizeof(*list->cookies));
	list->offsets[n] = site->offset;
	list->semaphores[n] = site->semaphore;
	list->cookies[n] = cookie;
	list->probes.cnt++;
	p->total++;
}

static struct probe_list *list_of(struct probes *p, uint32_t object, enum engine_prog prog)
{
	return &p->lists[prog * p->object_cnt + object];
}

void probes_add(struct probes *p, uint32_t object, enum engine_prog prog, uint64_t offset,
	uint64_t cookie)
{
	const struct event_site site = { .offset = offset };

	list_add(p, list_of(p, object, prog), &site, cookie);
}

void probes_add_place(struct probes *p, uint32_t no, uint32_t object, enum engine_prog prog,
	uint64_t offset, uint64_t cookie)
{
	const struct event_site site = { .offset = offset };
	struct place_probes *place = &p->places[no - p->place_first];

	place->object = object;
	list_add(p, prog == ENGINE_END ? &place->ends : &place->entry, &site, cookie);
}

int probes_add_event(struct probes *p, uint32_t object, enum engine_prog prog,
	const struct event_site *site, uint32_t fn, enum fsn_kind kind)
{
	p->sources = array_grow(p->sources, p->source_cnt, sizeof(*p->sources));
	if (p->source_cnt >= FSN_SOURCES_MAX)
		return -E2BIG;
	p->sources[p->source_cnt++] = site->from;
	list_add(p, list_of(p, object, prog), site,
		fn | (uint64_t)kind << FSN_COOKIE_KIND_SHIFT |
			(uint64_t)p->source_cnt << FSN_COOKIE_MORE_SHIFT);
	return 0;
}

static int link_object(struct probes *p, const struct draft *draft, uint32_t object)
{
	int code = 0;

	for (size_t i = 0; !code && i < TARGET_CNT; i++)
		if (target_kinds[i]->link_object)
			code = target_kinds[i]->link_object(p, draft, object);
	return code;
}

static void list_finish(
	struct probe_list *list, enum engine_prog prog, const struct object *object)
{
	list->prog = prog;
	list->path = list->probes.object = object->path;
	list->probes.file_fd = object->elf ? elf_file_fd(object->elf) : -1;
	list->probes.offsets = list->offsets;
	list->probes.semaphores = prog == ENGINE_USDT || prog == ENGINE_GPU ? list->semaphores : NULL;
	list->probes.cookies = list->cookies;
}

int probes_new(const struct draft *draft, enum link_mode mode, struct probes *ret_probes,
	struct err *err)
{
	__cleanup(probes_done) struct probes p = {};
	size_t numbered = draft->probed_cnt + draft->place_cnt;
	int code = numbered > FSN_FN_MAX ? -E2BIG : 0;

	p.lists = xcalloc(draft->objects.cnt * ENGINE_PROG_CNT, sizeof(*p.lists));
	p.places = xcalloc(draft->place_cnt + 1, sizeof(*p.places));
	p.place_cnt = draft->place_cnt;
	p.place_first = draft->probed_cnt;
	for (size_t i = 0; i < p.place_cnt; i++)
		p.places[i].leader = UINT32_MAX;
	p.object_cnt = draft->objects.cnt;
	p.list_cnt = draft->objects.cnt * ENGINE_PROG_CNT;
	for (uint32_t fn = 0; !code && fn < draft->probed_cnt; fn++) {
		const struct target *t = &draft->targets[fn];

		code = t->kind->link(&p, draft, fn, mode);
		if (code)
			return err_sys(err, code, "cannot list probes of '%s'",
				t->name);
	}
	for (uint32_t i = 0; !code && i < draft->objects.cnt; i++)
		code = link_object(&p, draft, i);
	if (code)
		return err_sys(err, code, "cannot number %zu functions", numbered);
	for (size_t prog = 0; prog < ENGINE_PROG_CNT; prog++)
		for (size_t i = 0; i < p.object_cnt; i++)
			list_finish(list_of(&p, i, prog), prog, draft->objects.object[i]);
	for (size_t i = 0; i < p.place_cnt; i++) {
		const struct object *object = draft->objects.object[p.places[i].object];

		list_finish(&p.places[i].ends, ENGINE_END, object);
		list_finish(&p.places[i].entry, ENGINE_ENTRY, object);
	}
	*ret_probes = p;
	memset(&p, 0, sizeof(p));
	return 0;
}

static void list_done(struct probe_list *list)
{
	free(list->offsets);
	free(list->semaphores);
	free(list->cookies);
}

void probes_done(struct probes *p)
{
	for (size_t i = 0; i < p->list_cnt; i++)
		list_done(&p->lists[i]);
	for (size_t i = 0; i < p->place_cnt; i++) {
		list_done(&p->places[i].ends);
		list_done(&p->places[i].entry);
	}
	free(p->lists);
	free(p->jumps);
	free(p->places);
	free(p->sources);
}
