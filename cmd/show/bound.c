// SPDX-License-Identifier: BSD-2-Clause
// The bound on the overhead of a group, and the functions that it has sampled, only counted or left out.
#include <stdlib.h>
#include <string.h>

#include "attach/attach.h"
#include "show/list.h"
#include "show/stats.h"
#include "show/text.h"

static void bound_name(struct bound *b, const struct target *t)
{
	size_t at = b->named;

	while (at && b->expensive[at - 1]->cost_ns < t->cost_ns)
		at--;
	if (at == BOUND_NAMES)
		return;
	b->named += b->named < BOUND_NAMES;
	memmove(&b->expensive[at + 1], &b->expensive[at],
		(b->named - at - 1) * sizeof(*b->expensive));
	b->expensive[at] = t;
}

void bound_count(const struct draft *draft, struct bound *ret_bound)
{
	struct bound b = {};

	for (size_t i = 0; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];

		b.cnt[t->limit] += t->limit != LIMIT_NONE || !t->refused;
		if (t->limit != LIMIT_NONE)
			bound_name(&b, t);
	}
	*ret_bound = b;
}

bool bound_limits(const struct bound *b)
{
	return b->cnt[LIMIT_SAMPLED] || b->cnt[LIMIT_COUNTED] || b->cnt[LIMIT_LEFT_OUT];
}

/* ": 'f' (9000 calls/s), 'g' ...; '--overhead none' keeps all" from @len on, if there are names. */
static void names_text(const struct bound *b, char *buf, size_t len, size_t size)
{
	for (size_t i = 0; i < b->named && len < size; i++)
		len += snprintf(buf + len, size - len, "%s'%s' (%llu calls/s)", i ? ", " : ": ",
			b->expensive[i]->name, (unsigned long long)b->expensive[i]->calls_per_s);
	if (b->named && len < size)
		snprintf(buf + len, size - len, "; '--overhead none' keeps all");
}

void bound_text(const struct bound *b, const struct budget *budget, char *buf, size_t size)
{
	size_t kept = b->cnt[LIMIT_NONE] + b->cnt[LIMIT_SAMPLED] + b->cnt[LIMIT_COUNTED], len;

	len = snprintf(buf, size, "overhead at most %g %%: %zu function%s kept", budget->share / 1e4,
		kept, kept == 1 ? "" : "s");
	for (enum limit limit = LIMIT_SAMPLED; limit < LIMIT_CNT && len < size; limit++)
		if (b->cnt[limit])
			len += snprintf(buf + len, size - len, ", %zu %s%s", b->cnt[limit],
				limit == LIMIT_LEFT_OUT ? "" : "of them ", text_limit(limit));
	names_text(b, buf, len, size);
}

void bound_shed_text(
	const struct draft *draft, size_t cnt, const struct budget *budget, char *buf, size_t size)
{
	struct bound b = {};
	size_t len = snprintf(buf, size, "overhead at most %g %%: %zu more function%s left out meanwhile",
		budget->share / 1e4, cnt, cnt == 1 ? "" : "s");

	/* A function that was left out before has no probes. */
	for (size_t i = 0; i < draft->probed_cnt; i++)
		if (draft->targets[i].limit == LIMIT_LEFT_OUT)
			bound_name(&b, &draft->targets[i]);
	names_text(&b, buf, len, size);
}

/* As many as are named. */
static size_t most_shed(const struct stats *s, const struct stats_func **ret_funcs)
{
	size_t cnt = 0;

	for (size_t i = 0; i < s->func_cnt; i++) {
		const struct stats_func *f = &s->funcs[i];
		size_t at = cnt;

		if (!stats_is_shed(s->group, f->fn, &f->n))
			continue;
		while (at && ret_funcs[at - 1]->n.sampled_out < f->n.sampled_out)
			at--;
		if (at == BOUND_NAMES)
			continue;
		cnt += cnt < BOUND_NAMES;
		memmove(&ret_funcs[at + 1], &ret_funcs[at], (cnt - at - 1) * sizeof(*ret_funcs));
		ret_funcs[at] = f;
	}
	return cnt;
}

bool bound_shed_calls(const struct stats *s, char *buf, size_t size)
{
	const struct stats_func *most[BOUND_NAMES];
	size_t cnt = most_shed(s, most), len;

	len = snprintf(buf, size, "above the overhead of %g %%, calls were counted but not timed: ",
		group_info(s->group).budget / 1e4);
	for (size_t i = 0; i < cnt && len < size; i++)
		len += snprintf(buf + len, size - len, "%s%llu of %llu of '%s'", i ? ", " : "",
			(unsigned long long)most[i]->n.sampled_out,
			(unsigned long long)most[i]->n.calls,
			group_func(s->group, most[i]->fn).name);
	return cnt;
}

void bound_json(struct json *j, const struct bound *b, const struct budget *budget)
{
	if (!budget->share) {
		json_set_null(j, "overhead");
		return;
	}
	json_set_open(j, "overhead", '{');
	json_set_u64(j, "granted_ns_per_s", budget->share * 1000ULL);
	json_set_u64_if(j, "tried_ns", budget->tried_ns, budget->tried_ns);
	json_set_u64_if(j, "cost_ns_per_s", budget->tried_ns, budget->cost_ns);
	json_set_u64(j, "kept",
		b->cnt[LIMIT_NONE] + b->cnt[LIMIT_SAMPLED] + b->cnt[LIMIT_COUNTED]);
	json_set_u64(j, "sampled", b->cnt[LIMIT_SAMPLED]);
	json_set_u64(j, "counted_only", b->cnt[LIMIT_COUNTED]);
	json_set_u64(j, "left_out", b->cnt[LIMIT_LEFT_OUT]);
	json_set_open(j, "expensive", '[');
	for (size_t i = 0; i < b->named; i++) {
		json_open(j, '{');
		json_set_str(j, "name", b->expensive[i]->name);
		json_set_str(j, "limited", text_limit(b->expensive[i]->limit));
		json_set_u64(j, "calls_per_s", b->expensive[i]->calls_per_s);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}
