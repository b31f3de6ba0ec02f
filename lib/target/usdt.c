// SPDX-License-Identifier: BSD-2-Clause
// USDT probes of files, and spans from one event to another.
#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "preset/preset.h"
#include "target/kind.h"

/* --- arguments ------------------------------------------------------------------------------ */

static struct fsn_source source_of(const struct usdt_arg *arg)
{
	static const unsigned char from[] = {
		[USDT_ARG_UNKNOWN] = FSN_FROM_NOWHERE,
		[USDT_ARG_CONST] = FSN_FROM_NUMBER,
		[USDT_ARG_REG] = FSN_FROM_REG,
		[USDT_ARG_MEM] = FSN_FROM_MEMORY,
	};

	return (struct fsn_source) {
		.from = from[arg->kind],
		.size = arg->size,
		.reg = arg->reg,
		.index = arg->index,
		.shift = arg->shift,
		.is_signed = arg->is_signed,
		.offset = arg->offset,
	};
}

/* Merges the declarations of argument @n by all sites. */
static struct preset_value value_of(const struct usdt_site *sites, size_t cnt, size_t n)
{
	struct preset_value value = { .kind = TYPE_INT, .size = 1 };

	for (size_t i = 0; i < cnt; i++) {
		const struct usdt_arg *arg = &sites[i].args[n];

		if (n >= sites[i].arg_cnt)
			continue;
		if (arg->size > value.size)
			value.size = arg->size;
		value.is_signed |= arg->is_signed;
	}
	/* May also be a pointer. */
	if (value.size == 8 && !value.is_signed)
		value.kind = TYPE_UNKNOWN;
	return value;
}

static void arg_declare(struct targets *targets, const struct usdt_site *sites, size_t cnt,
	size_t n, struct preset_arg *arg)
{
	char text[48], name[24];

	arg->value = value_of(sites, cnt, n);
	arg->place.words = 1;
	arg->place.index = n;
	arg->place.where = n < FSN_EVENT_ARGS ? PLACE_EVENT : PLACE_NOWHERE;
	for (size_t i = 0; i < cnt; i++)
		if (n < sites[i].arg_cnt && sites[i].args[n].kind == USDT_ARG_UNKNOWN)
			arg->place.where = PLACE_NOWHERE;
	snprintf(name, sizeof(name), "arg%zu", n + 1);
	snprintf(text, sizeof(text), "%sint%u_t %s", arg->value.is_signed ? "" : "u",
		8 * arg->value.size, name);
	arg->text = targets_text(targets, text);
	arg->name = targets_text(targets, name);
}

struct known_probe {
	struct preset_func func; /* stays first */
	struct preset_arg args[USDT_MAX_ARGS];
};

static const struct preset_func *know(struct targets *targets, const struct usdt_site *sites,
	size_t cnt, const struct preset_func *said)
{
	struct known_probe *known = targets_keep(targets, sizeof(*known));

	known->func = (struct preset_func) { .name = sites->name, .symbol = sites->name,
		.has_args = true, .args = known->args };
	for (size_t i = 0; i < cnt; i++)
		if (sites[i].arg_cnt > known->func.arg_cnt)
			known->func.arg_cnt = sites[i].arg_cnt;
	for (size_t n = 0; n < known->func.arg_cnt; n++)
		arg_declare(targets, sites, cnt, n, &known->args[n]);
	event_declare(targets, &known->func, said);
	return &known->func;
}

/* --- by name -------------------------------------------------------------------------------- */

struct finding {
	struct targets *targets;
	size_t first; /* index in .targets of the first one found by this lookup */
	struct libfind *finder;
	const struct request *req;
	bool glob;    /* several matches are allowed */
	const char *text;
	struct pattern pattern;
	size_t hits;
	struct suggest near;
};

const struct event *usdt_event(struct targets *targets, const struct object *object,
	const struct usdt_site *sites, size_t cnt)
{
	struct event *event = targets_keep(targets, sizeof(*event));
	struct event_site *to = targets_keep(targets, cnt * sizeof(*to));

	for (size_t i = 0; i < cnt; i++) {
		to[i].offset = sites[i].offset;
		to[i].semaphore = sites[i].semaphore;
		for (size_t n = 0; n < FSN_EVENT_ARGS; n++)
			if (n < sites[i].arg_cnt)
				to[i].from.arg[n] = source_of(&sites[i].args[n]);
	}
	*event = (struct event) { object, to, cnt };
	return event;
}

/* Adds all sites of one probe. */
static void find_probe(struct finding *f, const struct object *object,
	const struct usdt_site *sites, size_t cnt, const char *name)
{
	bool lenient = f->glob || f->req->optional;
	struct target t = { .request = f->req, .object = object, .addr = sites->addr,
		.offset = sites->offset, .site_offset = sites->offset, .from_pattern = lenient };

	for (size_t i = f->first; i < f->targets->cnt; i++) {
		struct target *other = &f->targets->target[i];

		if (other->object == object && !strcmp(other->symbol, name)) {
			other->from_pattern &= lenient;
			return;
		}
	}
	t.symbol = targets_text(f->targets, name);
	t.name = f->req->name && !f->glob ? f->req->name : t.symbol;
	t.known = know(f->targets, sites, cnt, f->req->known);
	t.event = usdt_event(f->targets, object, sites, cnt);
	targets_add(f->targets, &t);
}

static bool is_meant(const struct finding *f, const char *name)
{
	return f->glob ? pattern_match(&f->pattern, name) : !strcmp(f->text, name);
}

static void find_in(struct finding *f, const struct object *object)
{
	__cleanup(usdt_sites_done) struct usdt_sites s = {};

	usdt_sites_read(object->elf, &s);
	for (size_t i = 0, end; i < s.cnt; i = end) {
		const struct usdt_site *site = &s.sites[i];
		_cleanup_free_ char *name = xasprintf("%s:%s", site->provider, site->name);
		const char *kept;

		for (end = i + 1; end < s.cnt && !strcmp(s.sites[end].name, site->name) &&
			!strcmp(s.sites[end].provider, site->provider);)
			end++;
		/* The hint is written after the file is closed. */
		kept = targets_text(f->targets, name);
		suggest_offer(&f->near, kept, NULL);
		if (!strchr(f->text, ':'))
			suggest_offer(&f->near, kept + strlen(site->provider) + 1, NULL);
		if (!is_meant(f, name) && !is_meant(f, site->name))
			continue;
		f->hits++;
		find_probe(f, object, site, end - i, name);
	}
}

/* Names the providers in the files that given processes map, or where all are listed. */
static void hint_providers(struct finding *f, struct err *err)
{
	__cleanup(objects_done) struct objects objects = {};
	char list[ERR_HINT_LEN / 2] = "", word[sizeof(list)];
	size_t len = 0;

	if (libfind_has_pids(f->finder))
		libfind_add_mapped(f->finder, &objects);
	for (size_t i = 0; i < objects.cnt && len < sizeof(list); i++) {
		__cleanup(usdt_sites_done) struct usdt_sites s = {};

		usdt_sites_read(objects.object[i]->elf, &s);
		for (size_t k = 0; k < s.cnt && len < sizeof(list); k++) {
			snprintf(word, sizeof(word), "'u:%s:*'", s.sites[k].provider);
			if (!strstr(list, word))
				len += snprintf(list + len, sizeof(list) - len, "%s%s",
					len ? ", " : "", word);
		}
	}
	if (len && len < sizeof(list))
		err_hint(err, "mapped files have %s", list);
	else
		err_hint(err, "'funcsnoop list targets \"u:*\"' shows those of running programs");
}

/* Suggests probes with similar names, each after @prefix; else keeps a hint that @err has. */
static void hint_probes(struct finding *f, const char *prefix, struct err *err)
{
	char hint[ERR_HINT_LEN];

	f->near.prefix = prefix;
	if (suggest_text(&f->near, hint, sizeof(hint)))
		err_hint(err, "%s", hint);
	else if (err && !err->hint[0])
		hint_providers(f, err);
}

static int not_found(
	struct finding *f, const char *lib, const struct objects *objects, struct err *err)
{
	_cleanup_free_ char *prefix = xasprintf("u:%s:", lib);

	err_set(err, -ENOENT, "no USDT probe '%s' in '%s'", f->text,
		objects->cnt == 1 ? objects->object[0]->path : lib);
	hint_probes(f, prefix, err);
	return -ENOENT;
}

/* Searches all mapped files for PROVIDER[:PROBE], because no library is named @provider. */
static bool find_provider(struct finding *f, const char *provider)
{
	__cleanup(objects_done) struct objects objects = {};
	_cleanup_free_ char *name = xasprintf("%s:%s", provider, f->text);

	pattern_done(&f->pattern);
	f->text = targets_text(f->targets, name);
	f->glob = pattern_is_glob(f->text);
	if (pattern_init(&f->pattern, PATTERN_GLOB, f->text, NULL))
		return false;
	suggest_init(&f->near, f->text);
	libfind_add_mapped(f->finder, &objects);
	for (size_t i = 0; i < objects.cnt; i++)
		find_in(f, objects.object[i]);
	return f->hits;
}

/*
 * Searches all files that given processes map, because @lib, which they do have, has no probes: a
 * virtual machine is in a library of its program.
 */
static void find_mapped(struct finding *f, const char *lib)
{
	__cleanup(objects_done) struct objects objects = {};
	_cleanup_free_ char *note = NULL;
	size_t first = f->targets->cnt;

	libfind_add_mapped(f->finder, &objects);
	for (size_t i = 0; i < objects.cnt; i++)
		find_in(f, objects.object[i]);
	if (f->targets->cnt == first)
		return;
	note = xasprintf("'%s' has no USDT probes: those of all files of the process are meant", lib);
	f->targets->target[first].note = targets_text(f->targets, note);
}

static bool has_probes(const struct objects *objects)
{
	for (size_t i = 0; i < objects->cnt; i++) {
		__cleanup(usdt_sites_done) struct usdt_sites s = {};

		usdt_sites_read(objects->object[i]->elf, &s);
		if (s.cnt)
			return true;
	}
	return false;
}

/* Parses LIB:[PROVIDER:]PROBE or PROVIDER:PROBE; LIB or PROVIDER alone means all its probes. */
static int find_request(struct finding *f, struct err *err)
{
	const char *text = target_name_in(&target_usdt, f->req->func);
	__cleanup(objects_done) struct objects objects = {};
	_cleanup_free_ char *lib = NULL;
	size_t len = strlen(text);
	int code;

	f->text = "*";
	if (function_lib(text, &len) == text)
		f->text = text + len + 1;
	lib = xstrndup(text, len);
	f->glob = (f->req->regex && f->text > text) || pattern_is_glob(f->text);
	code = pattern_init(&f->pattern,
		f->req->regex && f->text > text ? PATTERN_REGEX : PATTERN_GLOB, f->text, err);
	if (!code)
		code = libfind_get(f->finder, lib, &objects, err);
	if (code == -ENOENT && !strchr(lib, '/') && !f->req->regex) {
		if (!find_provider(f, lib)) {
			hint_probes(f, "u:", err);
			return code;
		}
		libfind_forgive(f->finder);
		return 0;
	}
	if (code)
		return code;
	suggest_init(&f->near, f->text);
	for (size_t i = 0; i < objects.cnt; i++)
		find_in(f, objects.object[i]);
	if (libfind_has_pids(f->finder) && !has_probes(&objects))
		find_mapped(f, lib);
	return f->hits ? 0 : not_found(f, lib, &objects, err);
}

static int usdt_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	size_t first = targets->cnt;
	int code = 0;

	for (size_t i = 0; !code && i < req_cnt; i++) {
		struct finding f = { .targets = targets, .first = first, .finder = finder,
			.req = reqs[i] };

		code = find_request(&f, err);
		pattern_done(&f.pattern);
		if (code == -ENOENT && reqs[i]->optional) {
			libfind_forgive(finder);
			targets_miss(targets, reqs[i]);
			code = 0;
		}
	}
	return code;
}

/* --- probes --------------------------------------------------------------------------------- */

/* sys/sdt.h inserts a nop, which is emulated; the planner checks other instructions. */
static bool is_nop(const struct plan_image *img, uint64_t addr)
{
	for (size_t i = 0; i < img->text_cnt; i++) {
		const struct plan_text *t = &img->texts[i];
		uint64_t at = addr - t->addr;

		if (addr < t->addr || at >= t->size)
			continue;
		return img->arch == PLAN_X86_64
			? t->bytes[at] == 0x90
			: t->size - at >= 4 && !memcmp(t->bytes + at, "\x1f\x20\x03\xd5", 4);
	}
	return false;
}

static int plan_site(struct target *t, const struct plan_image *img,
	const struct plan_rules *rules, uint64_t addr, struct err *err)
{
	struct plan_rules here = *rules;
	const struct plan_request req = { .addr = addr };
	struct planner *planner;
	int code;

	if (is_nop(img, addr))
		return 0;
	here.site_entry = true;
	code = planner_new(img, &here, &planner, err);
	if (code)
		return code;
	plan_done(&t->plan);
	t->plan = (struct plan) {};
	code = planner_plan(planner, &req, &t->plan, err);
	planner_free(planner);
	if (!code && t->plan.refused[0])
		t->refused = t->plan.refused;
	return code;
}

/* Sets @t->refused to the reason why a site of @event, an event in a file, cannot be probed. */
static int usdt_plan_event(struct target *t, const struct event *event,
	const struct plan_rules *rules, struct err *err)
{
	struct elf_file *elf = event->object->elf;
	struct plan_image img;
	int code = elf_file_image(elf, &img, err);

	for (size_t i = 0; !code && !t->refused && i < event->site_cnt; i++) {
		uint64_t addr;

		if (elf_file_offset_to_addr(elf, event->sites[i].offset, &addr))
			return err_set(err, -ERANGE, "probe site of '%s' is outside the file",
				t->name);
		code = plan_site(t, &img, rules, addr, err);
	}
	return code;
}

static int usdt_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	int code = 0;

	for (size_t i = first; !code && i < first + cnt; i++) {
		struct target *t = &draft->targets[i];
		size_t sites = t->event->site_cnt;
		char why[sizeof(t->plan.site_why)];

		code = usdt_plan_event(t, t->event, rules, err);
		if (code || t->refused)
			continue;
		snprintf(why, sizeof(why), "USDT probe, %zu site%s", sites, sites == 1 ? "" : "s");
		event_plan(&t->plan, PLAN_EXIT_NONE, why, EVENT_NO_END);
	}
	return code;
}

const struct target_kind target_usdt = {
	.number = TARGET_USDT,
	.prefix = "u",
	.also = { "usdt" },
	.noun = "USDT probe",
	.word = "usdt",
	.is_event = true,
	.stacks = STACKS_OF_USER,
	.priced_by = PRICED_BY_SITE,
	.find = usdt_find,
	.plan = usdt_plan,
	.link = event_link,
	.is_stale = object_is_stale,
};

/* --- spans ---------------------------------------------------------------------------------- */

static bool is_event(const struct target_kind *kind)
{
	return kind && kind->is_event;
}

const char *span_end(const char *func)
{
	const char *dots = strstr(func, "..");

	for (; dots; dots = strstr(dots + 1, ".."))
		if (is_event(target_kind_said(dots + 2)))
			return is_event(target_kind_said(func)) ? dots + 2 : NULL;
	return NULL;
}

/* Finds the event @func; it must match exactly one. */
static int find_event(struct libfind *finder, const struct request *req, const char *func,
	struct targets *targets, struct target *ret_target, struct err *err)
{
	const struct target_kind *kind = target_kind_said(func);
	struct request *one = targets_keep(targets, sizeof(*one));
	size_t first = targets->cnt;
	int code;

	*one = (struct request) { .func = func };
	if (pattern_is_glob(func))
		return err_set(err, -EINVAL, "'%s': a span is from one event to another", req->func);
	code = target_kind_find(kind, finder, NULL, (const struct request *const[]) { one }, 1,
		targets, err);
	if (code)
		return code;
	if (targets->cnt != first + 1)
		return err_set(err, -EINVAL, "'%s' is %zu events: a span is from one to another",
			func, targets->cnt - first);
	*ret_target = targets->target[first];
	targets->cnt = first;
	return 0;
}

/*
 * True if both are at one site: a span between them is refused, as the kernel may run them in any
 * order.
 */
static bool is_same(const struct event *a, const struct event *b)
{
	for (size_t i = 0; a->object == b->object && i < a->site_cnt; i++)
		for (size_t n = 0; n < b->site_cnt; n++)
			if (a->sites[i].offset == b->sites[n].offset)
				return true;
	return false;
}

/* The arguments of a span are those of its first event. */
static int find_span(struct libfind *finder, const struct request *req,
	struct targets *targets, struct err *err)
{
	const char *end = span_end(req->func);
	_cleanup_free_ char *name = NULL, *begin = xstrndup(req->func, end - 2 - req->func);
	const char *kept = targets_text(targets, begin);
	struct preset_func *known = targets_keep(targets, sizeof(*known));
	struct target t, until;
	int code;

	code = find_event(finder, req, kept, targets, &t, err);
	if (!code)
		code = find_event(finder, req, end, targets, &until, err);
	if (code)
		return code;
	if (is_same(t.event, until.event))
		return err_set(err, -EINVAL,
			"'%s': a span is from one event to another, not to the same one",
			req->func);
	name = xasprintf("%s..%s", t.symbol, until.symbol);
	*known = *t.known;
	event_declare(targets, known, req->known);
	t.request = req;
	t.symbol = targets_text(targets, name);
	t.name = req->name ? req->name : t.symbol;
	t.known = known;
	t.from_pattern = req->optional;
	t.until = until.event;
	targets_add(targets, &t);
	return 0;
}

static int span_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < req_cnt; i++) {
		code = find_span(finder, reqs[i], targets, err);
		if (code == -ENOENT && reqs[i]->optional) {
			targets_miss(targets, reqs[i]);
			code = 0;
		}
	}
	return code;
}

static int span_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	int code = 0;

	for (size_t i = first; !code && i < first + cnt; i++) {
		struct target *t = &draft->targets[i];
		const struct event *both[] = { t->event, t->until };

		for (size_t n = 0; !code && n < ARRAY_SIZE(both); n++)
			if (both[n]->object->elf)
				code = usdt_plan_event(t, both[n], rules, err);
		if (code || t->refused)
			continue;
		event_plan_call(&t->plan, rules, "its first event", "its last event");
	}
	return code;
}

/* Its events may be in a file, or in the kernel. */
static bool span_is_stale(const char *path, const struct object_id *id)
{
	return id->ino && object_is_stale(path, id);
}

const struct target_kind target_span = {
	.number = TARGET_SPAN,
	.noun = "span",
	.word = "span",
	.find = span_find,
	.plan = span_plan,
	.link = event_link,
	.is_stale = span_is_stale,
};
