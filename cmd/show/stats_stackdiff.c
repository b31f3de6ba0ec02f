// SPDX-License-Identifier: BSD-2-Clause
// Stacks of two readings compared: --diff with --by stack, or in a form of stacks.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/stacks.h"
#include "show/text.h"

/* --- which there are ---------------------------------------------------------------------------- */

struct changes {
	struct stack_change *of;
	size_t cnt;
};

/* Of one function of samples the stack has all that it was in. */
static bool is_sample(const struct report_group *rg, const char *name)
{
	const struct group *g = rg->s->group;

	for (uint32_t i = 0; i < group_info(g).fn_cnt; i++)
		if (!strcmp(group_func_name(g, i), name))
			return group_func(g, i).is_sample;
	return false;
}

static size_t stack_len(const char *stack)
{
	size_t len = 0;

	while (stack[len])
		len += strlen(stack + len) + 1;
	return len;
}

static int add_side(struct changes *c, const struct report_group *rg,
	const struct saved_group *group, bool now)
{
	bool gpu = group_info(rg->s->group).gpu;

	for (size_t i = 0; group && i < group->func_cnt; i++) {
		const struct saved_func *f = &group->funcs[i];
		bool sample = is_sample(rg, f->name);

		for (size_t k = 0; k < f->row_cnt; k++) {
			const struct saved_part *part = saved_part_find(&f->rows[k], "stack");
			const struct saved_part *kernel = saved_part_find(&f->rows[k], "kernel");
			struct stack_change *grown;

			if (!part || !part->stack)
				continue;
			grown = array_grow(c->of, c->cnt, sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			c->of = grown;
			grown += c->cnt++;
			*grown = (struct stack_change) { .stack = part->stack,
				.len = stack_len(part->stack),
				.func = sample && *part->stack ? NULL : f->name };
			if (gpu && kernel && kernel->name)
				grown->func = kernel->name;
			saved_row_add(now ? &grown->now : &grown->was, &f->rows[k].figures);
		}
	}
	return 0;
}

static int compare_changes(const void *a, const void *b)
{
	const struct stack_change *x = a, *y = b;
	int order = strcmp(x->func ? x->func : "", y->func ? y->func : "");

	if (order || x->len != y->len)
		return order ? order : x->len < y->len ? -1 : 1;
	return memcmp(x->stack, y->stack, x->len);
}

int stack_changes(
	const struct report_group *rg, struct stack_change **ret_changes, size_t *ret_cnt)
{
	struct changes c = {};
	int code = add_side(&c, rg, rg->before, false);
	size_t kept = 0;

	if (!code)
		code = add_side(&c, rg, &rg->after->groups[0], true);
	if (code) {
		free(c.of);
		return code;
	}
	if (c.cnt)
		qsort(c.of, c.cnt, sizeof(*c.of), compare_changes);
	for (size_t i = 1; i < c.cnt; i++) {
		if (compare_changes(&c.of[kept], &c.of[i])) {
			c.of[++kept] = c.of[i];
			continue;
		}
		saved_row_add(&c.of[kept].was, &c.of[i].was);
		saved_row_add(&c.of[kept].now, &c.of[i].now);
	}
	*ret_changes = c.of;
	*ret_cnt = c.cnt ? kept + 1 : 0;
	return 0;
}

/* What of a row is shown of stacks. */
static struct stats_row row_of(const struct figures *f)
{
	return (struct stats_row) {
		.n = { .calls = figure_or_0(f, FIGURE_CALLS),
			.errors = figure_or_0(f, FIGURE_ERRORS),
			.total_ns = figure_or_0(f, FIGURE_TOTAL),
			.on_cpu_ns = figure_or_0(f, FIGURE_ON_CPU),
			.queued_ns = figure_or_0(f, FIGURE_QUEUED),
			.blocked_ns = figure_or_0(f, FIGURE_BLOCKED) },
		.live = { .bytes = figure_or_0(f, FIGURE_LIVE) },
		.exit_bytes = figure_or_0(f, FIGURE_EXIT),
		.allocates = figure_known(f, FIGURE_LIVE),
	};
}

uint64_t stack_change_value(const struct figures *f, enum figure_id sort)
{
	const struct stats_row row = row_of(f);

	return stack_value(&row, sort);
}

int trie_take_changes(struct trie *t, const struct report_group *rg)
{
	_cleanup_free_ struct stack_change *changes = NULL;
	size_t cnt;
	int code = stack_changes(rg, &changes, &cnt);

	for (size_t i = 0; !code && i < cnt; i++) {
		const struct stack_change *c = &changes[i];
		const struct stats_row now = row_of(&c->now), was = row_of(&c->was);
		uint32_t at = NO_NODE;

		for (const char *p = c->stack; !code && *p; p += strlen(p) + 1)
			code = trie_pass(t, &at, p, &now, &was);
		if (!code && c->func)
			code = trie_pass(t, &at, c->func, &now, &was);
		t->split |= figure_known(&c->now, FIGURE_ON_CPU);
	}
	return code;
}

/* --- as a tree ------------------------------------------------------------------------------------ */

static void fill_node(struct grid *grid, const struct trie *t, uint32_t i)
{
	const struct node *n = &t->nodes[i];
	uint64_t was = stack_value(&t->was[i], t->sort), now = stack_value(&n->row, t->sort);
	enum cell_type type = figures[t->sort].unit == UNIT_NS ? CELL_NS
		: figures[t->sort].unit == UNIT_BYTES          ? CELL_BYTES
							       : CELL_COUNT;

	grid_text(grid, figures[t->sort].word);
	grid_text(grid, figures[t->sort].key);
	grid_n(grid, type, true, was);
	grid_n(grid, type, true, now);
	if (!was)
		grid_text(grid, "new");
	else if (!now)
		grid_text(grid, "vanished");
	else
		grid_real(grid, CELL_CHANGE, true, diff_percent(was, now));
	grid_real(grid, CELL_CHANGE, was, was ? diff_percent(was, now) : 0);
	grid_textf(grid, "%*s%s", 2 * (int)trie_branches(t, n), "", n->name);
	grid_number(grid, n->depth);
	grid_text(grid, n->name);
	if (now != was)
		grid_mark(grid, now > was ? "31" : "34");
}

void fill_stack_diff(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	__cleanup(trie_done) struct trie t = {};
	uint32_t at;

	if (trie_take_changes(&t, rg)) {
		grid->failed = true;
		return;
	}
	for (at = trie_begin(&t, r->choice); at != NO_NODE; at = trie_next(&t, at))
		fill_node(grid, &t, at);
}

/* --- JSON ----------------------------------------------------------------------------------------- */

static void add_frames(struct json *j, const char *stack, size_t len)
{
	/* The innermost first, as elsewhere. */
	json_set_open(j, "frames", '[');
	while (len) {
		size_t at = len - 1;

		while (at && stack[at - 1])
			at--;
		json_str(j, stack + at);
		len = at;
	}
	json_close(j, ']');
}

int json_write_stack_diff(struct json *doc, const struct report_group *rg, FILE *f)
{
	_cleanup_free_ struct stack_change *changes = NULL;
	size_t cnt = 0;
	int code = stack_changes(rg, &changes, &cnt);

	json_open(doc, '{');
	json_set_str(doc, "group", group_info(rg->s->group).name);
	json_set_str(doc, "before_since", rg->before ? rg->before->since : NULL);
	json_set_time(doc, "since", rg->s->since_ns);
	json_set_open(doc, "stacks", '[');
	for (size_t i = 0; !code && i < cnt; i++) {
		json_open(doc, '{');
		json_set_str(doc, "function", changes[i].func);
		add_frames(doc, changes[i].stack, changes[i].len);
		json_set_open(doc, "before", '{');
		json_add_figures(doc, USE_ROW_DOCUMENT, &changes[i].was);
		json_close(doc, '}');
		json_set_open(doc, "after", '{');
		json_add_figures(doc, USE_ROW_DOCUMENT, &changes[i].now);
		json_close(doc, '}');
		json_close(doc, '}');
		code = json_flush(doc, f);
	}
	json_close(doc, ']');
	json_close(doc, '}');
	return code ? code : json_flush(doc, f);
}
