// SPDX-License-Identifier: BSD-2-Clause
// What is said of the overhead of a group, and of the functions that were given up for it.
#include <stdlib.h>
#include <string.h>

#include "attach/attach.h"
#include "show/list.h"
#include "show/text.h"

void bound_count(const struct draft *draft, struct bound *ret_bound)
{
	struct bound b = {};

	for (size_t i = 0; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];
		size_t at = b.named;

		b.cnt[t->limit] += t->limit != LIMIT_NONE || !t->refused;
		if (t->limit == LIMIT_NONE)
			continue;
		while (at && b.expensive[at - 1]->cost_ns < t->cost_ns)
			at--;
		if (at == BOUND_NAMES)
			continue;
		b.named += b.named < BOUND_NAMES;
		memmove(&b.expensive[at + 1], &b.expensive[at],
			(b.named - at - 1) * sizeof(*b.expensive));
		b.expensive[at] = t;
	}
	*ret_bound = b;
}

bool bound_limits(const struct bound *b)
{
	return b->cnt[LIMIT_SAMPLED] || b->cnt[LIMIT_COUNTED] || b->cnt[LIMIT_LEFT_OUT];
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
	for (size_t i = 0; i < b->named && len < size; i++)
		len += snprintf(buf + len, size - len, "%s'%s' (%llu calls/s)", i ? ", " : ": ",
			b->expensive[i]->name, (unsigned long long)b->expensive[i]->calls_per_s);
	if (b->named && len < size)
		snprintf(buf + len, size - len, "; '--overhead none' keeps all");
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
