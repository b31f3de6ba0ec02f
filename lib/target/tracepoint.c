// SPDX-License-Identifier: BSD-2-Clause
// The kernel's tracepoints: by name, their arguments the fields that tracefs describes.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/tracefs.h"
#include "preset/preset.h"
#include "target/kind.h"

#define EVENTS_MOST 500 /* of all processes, without --force */

static const struct object tracepoints = {
	.kind = OBJECT_TRACEPOINTS,
	.path = "[tracepoints]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- fields --------------------------------------------------------------------------------- */

/* The record's first word is the kernel's own when a program sees it. */
#define RECORD_BEGIN 8

static struct fsn_source source_of(const struct trace_field *f)
{
	struct fsn_source source = { .reg = FSN_NO_REG, .index = FSN_NO_REG, .size = f->size,
		.is_signed = f->is_signed, .offset = f->offset };

	if (f->offset < RECORD_BEGIN || f->offset > UINT16_MAX)
		return source;
	if (f->kind == TRACE_NUMBER)
		source.from = FSN_FROM_RECORD;
	else if (f->kind == TRACE_TEXT)
		source.from = FSN_FROM_TEXT;
	else if (f->kind == TRACE_LOC && f->of_text)
		source.from = FSN_FROM_LOC;
	else if (f->kind == TRACE_REL_LOC && f->of_text)
		source.from = FSN_FROM_REL_LOC;
	if (source.from != FSN_FROM_RECORD)
		source.size = 8;
	return source;
}

/* Those of a system call are the process's, which has its text. */
static struct preset_arg arg_of(const struct trace_field *f, bool of_call, size_t n)
{
	struct fsn_source source = source_of(f);
	struct preset_arg arg = { .value = { .kind = TYPE_INT, .size = f->size,
					  .is_signed = f->is_signed },
		.place = { PLACE_RECORD, n, 1, false } };
	size_t len = strlen(f->type);

	if (of_call) {
		arg.value = syscall_value(f);
		arg.place.where = PLACE_EVENT;
	} else if (source.from >= FSN_FROM_TEXT) {
		arg.value = (struct preset_value) { .kind = TYPE_STRING, .size = 8 };
	} else if (len && f->type[len - 1] == '*') {
		arg.value = (struct preset_value) { .kind = TYPE_POINTER, .size = 8 };
	}
	if (source.from == FSN_FROM_NOWHERE || n >= FSN_EVENT_STACK)
		arg.place.where = PLACE_NOWHERE;
	return arg;
}

/* "char comm[16]" */
static void arg_name(struct targets *targets, const struct trace_field *f, struct preset_arg *arg)
{
	bool pointer = strchr(f->type, '*') != NULL;
	char text[256], room[16] = "";

	if (f->kind == TRACE_TEXT)
		snprintf(room, sizeof(room), "[%u]", f->size);
	snprintf(text, sizeof(text), "%s%s%s%s", f->type, pointer ? "" : " ", f->name, room);
	arg->text = targets_text(targets, text);
	arg->name = targets_text(targets, f->name);
}

/* What is found of one. */
struct known_event {
	struct preset_func func; /* stays first */
	struct event event;
	struct event_site site;
	struct preset_arg args[];
};

static struct known_event *know(struct targets *targets, const struct trace_event *e,
	const char *category, const struct preset_func *said)
{
	struct known_event *known =
		targets_keep(targets, sizeof(*known) + e->cnt * sizeof(*known->args));
	bool of_calls = !strcmp(category, "syscalls");
	size_t n = 0;

	known->site.offset = e->id;
	known->event = (struct event) { &tracepoints, &known->site, 1 };
	for (size_t i = 0; i < e->cnt; i++) {
		const struct trace_field *f = &e->fields[i];

		if (f->is_common || !strcmp(f->name, "__syscall_nr"))
			continue;
		if (n < FSN_EVENT_STACK)
			known->site.from.arg[n] = source_of(f);
		known->args[n] = arg_of(f, of_calls, n);
		arg_name(targets, f, &known->args[n++]);
	}
	known->func.has_args = true;
	known->func.args = known->args;
	known->func.arg_cnt = n;
	event_declare(targets, &known->func, said);
	return known;
}

/* --- by name -------------------------------------------------------------------------------- */

struct finding {
	struct targets *targets;
	size_t first; /* of .targets, those of this look-up */
	int tracefs;
	struct trace_names names; /* read when they are first needed */
};

static int names_of(struct finding *f, struct err *err)
{
	return f->names.cnt ? 0 : tracefs_names(f->tracefs, &f->names, err);
}

static int find_one(struct finding *f, const struct request *req, const char *name,
	bool lenient, struct err *err)
{
	_cleanup_trace_event_ struct trace_event event = {};
	struct target t = { .request = req, .object = &tracepoints, .from_pattern = lenient };
	const char *colon = strchr(name, ':');
	_cleanup_free_ char *category = xstrndup(name, colon - name);
	struct known_event *known;
	int code;

	for (size_t i = f->first; i < f->targets->cnt; i++)
		if (!strcmp(f->targets->target[i].symbol, name)) {
			f->targets->target[i].from_pattern &= lenient;
			return 0;
		}
	code = tracefs_event(f->tracefs, category, colon + 1, &event, err);
	if (code)
		return code;
	known = know(f->targets, &event, category, req->known);
	t.symbol = targets_text(f->targets, name);
	t.name = req->name && !lenient ? req->name : t.symbol;
	t.known = &known->func;
	t.event = &known->event;
	t.offset = t.site_offset = event.id;
	targets_add(f->targets, &t);
	return 0;
}

/* In the hint the names that are near. */
static int not_found(struct finding *f, const char *text, struct err *err)
{
	const char *colon = strchr(text, ':');
	char hint[ERR_HINT_LEN];
	struct suggest near;

	err_set(err, -ENOENT, "no tracepoint '%s'", text);
	if (names_of(f, NULL))
		return -ENOENT;
	suggest_init(&near, text);
	near.prefix = "t:";
	for (size_t i = 0; i < f->names.cnt; i++) {
		const char *event = strchr(f->names.names[i], ':') + 1;

		suggest_offer(&near, f->names.names[i], NULL);
		if (!colon && !strcmp(event, text))
			return err_hint(err, "did you mean 't:%s'", f->names.names[i]);
	}
	if (suggest_text(&near, hint, sizeof(hint)))
		err_hint(err, "%s", hint);
	return -ENOENT;
}

static int find_pattern(struct finding *f, const struct request *req, const char *text,
	size_t *ret_hits, struct err *err)
{
	_cleanup_pattern_ struct pattern pattern = {};
	int code = pattern_init(
		&pattern, req->regex ? PATTERN_REGEX : PATTERN_GLOB, text, err);

	if (!code)
		code = names_of(f, err);
	for (size_t i = 0; !code && i < f->names.cnt; i++) {
		if (!pattern_match(&pattern, f->names.names[i]))
			continue;
		(*ret_hits)++;
		code = find_one(f, req, f->names.names[i], true, err);
		/* What went with its module meanwhile, or can't be read, is left out. */
		if (code == -ENOENT || code == -EBADMSG)
			code = 0;
	}
	return code;
}

static int find_request(struct finding *f, const struct request *req, struct err *err)
{
	const char *text = target_name_in(&target_tracepoint, req->func);
	bool glob = req->regex || pattern_is_glob(text);
	size_t hits = 0;
	int code;

	if (glob) {
		code = find_pattern(f, req, text, &hits, err);
		if (!code && !hits)
			code = not_found(f, text, err);
	} else {
		code = strchr(text, ':') ? find_one(f, req, text, req->optional, err) : -ENOENT;
		if (code == -ENOENT)
			code = not_found(f, text, err);
	}
	if (code == -ENOENT && req->optional) {
		targets_miss(f->targets, req);
		return 0;
	}
	return code;
}

static int tracepoint_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	struct finding f = { .targets = targets, .first = targets->cnt };
	_cleanup_close_ int tracefs = -1;
	int code = 0;

	tracefs = tracefs_open(err);
	if (tracefs < 0)
		return tracefs;
	f.tracefs = tracefs;
	for (size_t i = 0; !code && i < req_cnt; i++)
		code = find_request(&f, reqs[i], err);
	trace_names_done(&f.names);
	return code;
}

/* --- probes --------------------------------------------------------------------------------- */

static int tracepoint_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++) {
		struct plan *plan = &draft->targets[i].plan;

		plan->site_emulated = true;
		plan->exit = PLAN_EXIT_NONE;
		snprintf(plan->site_why, sizeof(plan->site_why), "tracepoint");
		snprintf(plan->exit_why, sizeof(plan->exit_why), "an event has no end");
	}
	return 0;
}

const struct target_kind target_tracepoint = {
	.number = TARGET_TRACEPOINT,
	.prefix = "t",
	.also = { "tracepoint", "rawtracepoint" },
	.noun = "tracepoint",
	.word = "tracepoint",
	.is_event = true,
	.stacks = STACKS_OF_THREADS,
	.most = EVENTS_MOST,
	.find = tracepoint_find,
	.plan = tracepoint_plan,
	.link = event_link,
	.is_stale = never_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
