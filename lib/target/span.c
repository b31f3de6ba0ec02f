// SPDX-License-Identifier: BSD-2-Clause
// Spans: from one event to another of the same thread.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "internal.h"
#include "preset/preset.h"
#include "target/kind.h"

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
static int find_request(struct libfind *finder, const struct request *req,
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
		code = find_request(finder, reqs[i], targets, err);
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
		t->plan.site_emulated = true;
		t->plan.exit = rules->exit == PLAN_MODE_NONE ? PLAN_EXIT_NONE : PLAN_EXIT_RETURN;
		snprintf(t->plan.site_why, sizeof(t->plan.site_why), "its first event");
		snprintf(t->plan.exit_why, sizeof(t->plan.exit_why), "%s",
			t->plan.exit == PLAN_EXIT_NONE ? "only counted: --count or --probe exit=none"
						       : "its last event");
	}
	return code;
}

const struct target_kind target_span = {
	.number = TARGET_SPAN,
	.noun = "span",
	.word = "span",
	.find = span_find,
	.plan = span_plan,
	.link = event_link,
	.is_stale = event_is_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
