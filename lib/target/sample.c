// SPDX-License-Identifier: BSD-2-Clause
// Samples of CPUs.
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "internal.h"
#include "preset/preset.h"
#include "target/kind.h"

#define NAME "samples"

static const struct object processors = {
	.kind = OBJECT_PROCESSORS,
	.path = "[cpu]",
	.build_id = "",
	.found_how = "this machine",
};

static const struct preset_func known = {
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
		struct target t = { .request = reqs[i], .object = &processors, .known = &known,
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
	for (size_t i = first; i < first + cnt; i++) {
		struct plan *plan = &draft->targets[i].plan;

		plan->site_emulated = true;
		plan->exit = PLAN_EXIT_NONE;
		snprintf(plan->site_why, sizeof(plan->site_why), "a timer on each CPU");
		snprintf(plan->exit_why, sizeof(plan->exit_why), "a sample has no end");
	}
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
	.is_stale = never_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
