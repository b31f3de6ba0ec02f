// SPDX-License-Identifier: BSD-2-Clause
// What threads wait for: off the CPU, and in the run queue.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "internal.h"
#include "preset/preset.h"
#include "target/kind.h"

static const struct object scheduler = {
	.kind = OBJECT_SCHEDULER,
	.path = "[scheduler]",
	.build_id = "",
	.found_how = "this kernel",
};

static const char *const names[WAIT_CNT] = {
	[WAIT_OFF_CPU] = "off-cpu",
	[WAIT_RUN_QUEUE] = "run-queue",
};

#define TEXT(n) { .where = PLACE_RECORD, .index = (n), .words = 1 }

/* In the order that the programs have (bpf/wait.bpf.h). */
static const struct preset_arg args[] = {
	{ .text = "const char *instead", .name = "instead",
		.value = { .kind = TYPE_STRING, .size = 8 }, .place = TEXT(0) },
	{ .text = "int instead_tid", .name = "instead_tid",
		.value = { .kind = TYPE_INT, .size = 4, .is_signed = true }, .place = TEXT(1) },
	{ .text = "const char *waker", .name = "waker",
		.value = { .kind = TYPE_STRING, .size = 8 }, .place = TEXT(2) },
	{ .text = "int waker_tid", .name = "waker_tid",
		.value = { .kind = TYPE_INT, .size = 4, .is_signed = true }, .place = TEXT(3) },
};

static const struct preset_func known = {
	.has_args = true,
	.args = (struct preset_arg *)args,
	.arg_cnt = ARRAY_SIZE(args),
	.ret_text = "void",
	.ret = { .kind = TYPE_VOID },
};

static int add_wait(struct targets *targets, const struct request *req, enum wait wait)
{
	struct target t = { .request = req, .object = &scheduler, .known = &known,
		.symbol = names[wait], .offset = wait, .site_offset = wait };

	t.name = req->name ? req->name : t.symbol;
	targets_add(targets, &t);
	return 0;
}

static int find_request(struct targets *targets, const struct request *req, struct err *err)
{
	const char *text = target_name_in(&target_wait, req->func);
	_cleanup_pattern_ struct pattern pattern = {};
	size_t before = targets->cnt;
	struct suggest near;
	char hint[ERR_HINT_LEN];
	int code = pattern_init(&pattern, req->regex ? PATTERN_REGEX : PATTERN_GLOB, text, err);

	if (code)
		return code;
	suggest_init(&near, text);
	near.prefix = "w:";
	for (size_t i = 0; !code && i < WAIT_CNT; i++) {
		suggest_offer(&near, names[i], NULL);
		if (pattern_match(&pattern, names[i]) && add_wait(targets, req, i))
			code = err_sys(err, -ENOMEM, "cannot list waits");
	}
	if (code || targets->cnt > before)
		return code;
	if (req->optional) {
		targets_miss(targets, req);
		return 0;
	}
	err_set(err, -ENOENT, "threads have no wait '%s'", text);
	if (suggest_text(&near, hint, sizeof(hint)))
		return err_hint(err, "%s", hint);
	return err_hint(err, "use 'w:%s' or 'w:%s'", names[0], names[1]);
}

/* One that is asked for twice is one. */
static void fold(struct targets *targets, size_t first)
{
	size_t cnt = first;

	for (size_t i = first; i < targets->cnt; i++) {
		size_t k = first;

		while (k < cnt && targets->target[k].offset != targets->target[i].offset)
			k++;
		if (k == cnt)
			targets->target[cnt++] = targets->target[i];
	}
	targets->cnt = cnt;
}

static int wait_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	size_t first = targets->cnt;
	int code = 0;

	for (size_t i = 0; !code && i < req_cnt; i++)
		code = find_request(targets, reqs[i], err);
	if (!code)
		fold(targets, first);
	return code;
}

static int wait_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++) {
		struct plan *plan = &draft->targets[i].plan;
		bool queue = draft->targets[i].offset == WAIT_RUN_QUEUE;

		plan->site_emulated = true;
		plan->exit = PLAN_EXIT_RETURN;
		snprintf(plan->site_why, sizeof(plan->site_why), "%s",
			queue ? "the thread wakes up, or loses its CPU while runnable"
			      : "the thread is switched out to sleep");
		snprintf(plan->exit_why, sizeof(plan->exit_why), "the thread has a CPU again");
	}
	return 0;
}

static int wait_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];

	probes_add(p, objects_find(&draft->objects, t->object), ENGINE_WAIT, t->offset, fn);
	return 0;
}

/* The programs can ask for that of the current thread: it is another one that is woken. */
static bool wait_lacks_cgroup(const struct target *t)
{
	return t->offset == WAIT_RUN_QUEUE;
}

const struct target_kind target_wait = {
	.number = TARGET_WAIT,
	.prefix = "w",
	.also = { "wait" },
	.noun = "wait",
	.word = "wait",
	.is_wait = true,
	.stacks = STACKS_OF_THREADS,
	.tax = "each switch of every CPU to another thread takes some 300 to 400 ns longer",
	.find = wait_find,
	.plan = wait_plan,
	.link = wait_link,
	.lacks_cgroup = wait_lacks_cgroup,
	.is_stale = never_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
