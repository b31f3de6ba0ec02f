// SPDX-License-Identifier: BSD-2-Clause
// Kernel tracepoints, by name; their arguments are the fields in tracefs.
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

/* In BPF programs the first word of the record is internal to the kernel. */
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

/* Pointers of a system call refer to user memory, so their text can be read. */
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

/* A found tracepoint. */
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

struct tracing {
	int tracefs;
	struct trace_names names; /* read when they are first needed */
};

static int tracepoint_open(struct lookup *l, struct err *err)
{
	struct tracing *by = targets_keep(l->targets, sizeof(*by));

	*by = (struct tracing) { .tracefs = tracefs_open(err) };
	l->by = by;
	return by->tracefs < 0 ? by->tracefs : 0;
}

static void tracepoint_close(struct lookup *l)
{
	struct tracing *by = l->by;

	trace_names_done(&by->names);
	by->tracefs = close_fd(by->tracefs);
}

static int tracepoint_names(struct lookup *l, struct err *err)
{
	struct tracing *by = l->by;
	int code = 0;

	if (!l->glob && !l->suggests)
		return strchr(l->text, ':') ? lookup_offer(l, l->text, NULL, err) : -ENOENT;
	if (!by->names.cnt)
		code = tracefs_names(by->tracefs, &by->names, err);
	for (size_t i = 0; !code && i < by->names.cnt; i++)
		code = lookup_offer(l, by->names.names[i], NULL, err);
	return code;
}

static int tracepoint_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	_cleanup_trace_event_ struct trace_event event = {};
	const struct tracing *by = l->by;
	const char *colon = strchr(name, ':');
	_cleanup_free_ char *category = xstrndup(name, colon - name);
	struct known_event *known;
	int code = tracefs_event(by->tracefs, category, colon + 1, &event, err);

	if (code)
		return code;
	known = know(l->targets, &event, category, l->req->known);
	t->object = &tracepoints;
	t->offset = event.id;
	t->symbol = targets_text(l->targets, name);
	t->known = &known->func;
	t->event = &known->event;
	return 0;
}

static const struct catalogue events = {
	.none = "no tracepoint",
	.none_in = "",
	.parents = true,
	.open = tracepoint_open,
	.close = tracepoint_close,
	.names = tracepoint_names,
	.make = tracepoint_make,
};

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
	.catalogue = &events,
	.plan = tracepoint_plan,
	.link = event_link,
	.is_stale = never_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
