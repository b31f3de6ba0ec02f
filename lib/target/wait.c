// SPDX-License-Identifier: BSD-2-Clause
// Waits of threads: off the CPU, and in the run queue.
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
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

/* In the order of the BPF programs (bpf/wait.bpf.h). */
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

#define KNOWN(waits_) \
	{ .has_args = true, .args = args, .arg_cnt = ARRAY_SIZE(args), .ret_text = "void", \
		.ret = { .kind = TYPE_VOID }, .waits = (waits_) }

/* A thread that waits for a CPU is awake. */
static const struct preset_func wait_known[] = {
	[WAIT_OFF_CPU] = KNOWN(true),
	[WAIT_RUN_QUEUE] = KNOWN(false),
};

static int wait_names(struct lookup *l, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < WAIT_CNT; i++)
		code = lookup_offer(l, names[i], &names[i], err);
	return code;
}

static int wait_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	t->object = &scheduler;
	t->symbol = name;
	t->offset = (const char *const *)what - names;
	t->known = &wait_known[t->offset];
	return 0;
}

static const struct catalogue waits = {
	.none = "threads have no wait",
	.none_in = "",
	.hint = "use 'w:off-cpu' or 'w:run-queue'",
	.names = wait_names,
	.make = wait_make,
};

static int wait_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++) {
		struct target *t = &draft->targets[i];

		event_plan(&t->plan, PLAN_EXIT_RETURN,
			t->offset == WAIT_RUN_QUEUE
				? "the thread wakes up, or loses its CPU while runnable"
				: "the thread is switched out to sleep",
			"the thread has a CPU again");
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

/*
 * BPF programs can only read the cgroup of the current thread, but the woken thread is another one.
 */
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
	.tax = "each switch of every CPU to another thread takes some 200 to 400 ns longer",
	.catalogue = &waits,
	.plan = wait_plan,
	.link = wait_link,
	.lacks_cgroup = wait_lacks_cgroup,
};

/* --- samples of CPUs ------------------------------------------------------------------------ */

#define NAME "samples"

static const struct object processors = {
	.kind = OBJECT_PROCESSORS,
	.path = "[cpu]",
	.build_id = "",
	.found_how = "this machine",
};

static const struct preset_func sample_known = {
	.has_args = true,
	.ret_text = "void",
	.ret = { .kind = TYPE_VOID },
};

static int sample_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	size_t first = targets->cnt;

	for (size_t i = 0; i < req_cnt; i++) {
		struct target t = { .request = reqs[i], .object = &processors, .known = &sample_known,
			.symbol = NAME };

		if (strcmp(target_name_in(&target_sample, reqs[i]->func), NAME) != 0) {
			err_set(err, -ENOENT, "'%s': CPUs have samples", reqs[i]->func);
			return err_hint(err, "did you mean '%s:%s'", target_sample.prefix, NAME);
		}
		t.name = reqs[i]->name ? reqs[i]->name : t.symbol;
		if (targets->cnt == first)
			targets_add(targets, &t);
	}
	return 0;
}

static int sample_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	for (size_t i = first; i < first + cnt; i++)
		event_plan(&draft->targets[i].plan, PLAN_EXIT_NONE, "a timer on each CPU",
			"a sample has no end");
	return 0;
}

static int sample_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	probes_add(p, objects_find(&draft->objects, draft->targets[fn].object), ENGINE_SAMPLE, 0,
		fn);
	return 0;
}

const struct target_kind target_sample = {
	.number = TARGET_SAMPLE,
	.prefix = "cpu",
	.noun = "sample",
	.word = "sample",
	.is_event = true,
	.is_wait = true,
	.is_sample = true,
	.stacks = STACKS_OF_THREADS,
	.find = sample_find,
	.plan = sample_plan,
	.link = sample_link,
};
