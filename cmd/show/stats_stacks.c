// SPDX-License-Identifier: BSD-2-Clause
// By whom calls were made: stacks as a tree, and in the form that flame graphs are made of.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "group/stacks.h"
#include "show/stats.h"

#define NO_NODE UINT32_MAX
#define MIN_SHARE 1 /* percent: what has less is not shown to people */

/* A frame under those that lead to it, or a function of the group. */
struct node {
	const char *name;
	uint32_t up, first, next;
	unsigned int depth, name_id;
	uint64_t value;
	struct stats_row row; /* of all stacks that pass here, or end */
};

struct trie {
	struct node *nodes;
	uint32_t cnt;
	uint32_t *places; /* by parent and name: number of a node + 1 */
	size_t place_cnt;
	uint64_t all;
};

static void trie_done(struct trie *t)
{
	free(t->nodes);
	free(t->places);
}

/* --- made of rows ------------------------------------------------------------------------------ */

static uint64_t hash_of(uint32_t up, const char *name)
{
	uint64_t hash = 0xcbf29ce484222325ULL ^ up;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3ULL;
	return hash ^ hash >> 32;
}

static uint32_t *place_of(const struct trie *t, uint32_t up, const char *name)
{
	uint64_t i = hash_of(up, name);

	for (;; i++) {
		uint32_t *place = &t->places[i & (t->place_cnt - 1)];
		const struct node *n = &t->nodes[*place - 1];

		if (!*place || (n->up == up && !strcmp(n->name, name)))
			return place;
	}
}

static int places_grow(struct trie *t)
{
	free(t->places);
	t->place_cnt = t->place_cnt ? 2 * t->place_cnt : 256;
	t->places = calloc(t->place_cnt, sizeof(*t->places));
	if (!t->places)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->cnt; i++)
		*place_of(t, t->nodes[i].up, t->nodes[i].name) = i + 1;
	return 0;
}

/* The node @name under @up, a new one where there is none; NULL: no memory. */
static struct node *trie_enter(struct trie *t, uint32_t up, const char *name)
{
	struct node *grown;
	uint32_t *place;

	if (!name || (2 * t->cnt >= t->place_cnt && places_grow(t)))
		return NULL;
	place = place_of(t, up, name);
	if (*place)
		return &t->nodes[*place - 1];
	grown = array_grow(t->nodes, t->cnt, sizeof(*grown));
	if (!grown)
		return NULL;
	t->nodes = grown;
	grown[t->cnt] = (struct node) { .name = name,
		.up = up,
		.first = NO_NODE,
		.next = NO_NODE,
		.depth = up == NO_NODE ? 0 : grown[up].depth + 1 };
	*place = t->cnt + 1;
	return &t->nodes[t->cnt++];
}

static const char *const ends[] = {
	[FSN_WALK_DEEP] = "[too deep]",
	[FSN_WALK_BUSY] = "[cut: mappings are changing]",
	[FSN_WALK_NOWHERE] = "[cut: no such address]",
	[FSN_WALK_NO_TABLE] = "[cut: file without a table]",
	[FSN_WALK_NO_RULE] = "[cut: code without a table]",
	[FSN_WALK_NO_MEMORY] = "[cut: stack is not there]",
	[FSN_WALK_LOST] = "[cut: frame can't be followed]",
};

/* What stands above all frames of a stack that was not followed to its end. */
static const char *end_of(const struct stack *stack)
{
	return stack->end < ARRAY_SIZE(ends) ? ends[stack->end] : NULL;
}

/* On from node *@at to @name below it, with what @row has. */
static int trie_pass(
	struct trie *t, uint32_t *at, const char *name, const struct stats_row *row)
{
	struct node *n = trie_enter(t, *at, name);

	if (!n)
		return -ENOMEM;
	stats_row_add(&n->row, row);
	*at = n - t->nodes;
	return 0;
}

static int trie_add(struct trie *t, struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row)
{
	const char *cut = end_of(stack);
	uint32_t at = NO_NODE;
	int code = cut ? trie_pass(t, &at, cut, row) : 0;

	for (size_t i = stack->cnt; !code && i--;)
		code = trie_pass(t, &at, stacks_name(s, stack->frames[i]), row);
	return code ? code : trie_pass(t, &at, func, row);
}

/* Which key of @rg stacks are; -1: none. */
static int stack_key(const struct report_group *rg)
{
	for (size_t i = 0; rg->keys.funcs && rg->s->keys_known && i < rg->keys.key_cnt; i++)
		if (!strcmp(rg->keys.key[i], "stack"))
			return (int)i;
	return -1;
}

/* Rows of a group whose stacks are known, each with what it is called. */
typedef int (*stack_row_fn)(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg);

static int each_row(const struct report_group *rg, stack_row_fn each, void *arg)
{
	int key = rg->stacks ? stack_key(rg) : -1, code = 0;

	for (size_t i = 0; key >= 0 && i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];

		for (size_t k = 0; !code && k < f->row_cnt; k++) {
			uint64_t number = stats_row_word(&f->rows[k], key);
			struct stack stack = stacks_get(rg->stacks, number);

			if (number)
				code = each(rg->stacks, &stack, group_func_name(rg->s->group, f->fn),
					&f->rows[k], arg);
		}
	}
	return code;
}

static int add_to_trie(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	return trie_add(arg, s, stack, func, row);
}

/* --- as a tree --------------------------------------------------------------------------------- */

static uint64_t value_of(const struct stats_row *row, enum figure_id sort)
{
	int64_t ns = (int64_t)row->n.total_ns;

	if (sort == FIGURE_CALLS || sort == SORT_BY_NAME)
		return row->n.calls;
	return sort == FIGURE_ERRORS ? row->n.errors : ns > 0 ? (uint64_t)ns : 0;
}

static int compare_nodes(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

	if (x->value != y->value)
		return x->value < y->value ? -1 : 1;
	return -strcmp(x->name, y->name);
}

/* Who called comes before what was called, and the most before the rest. */
static uint32_t trie_order(struct trie *t, enum figure_id sort)
{
	_cleanup_free_ struct node **by_value = calloc(t->cnt + 1, sizeof(struct node *));
	uint32_t first = NO_NODE;
	uint64_t any = 0;

	if (!by_value)
		return NO_NODE;
	/* Of calls that are only counted, or take no time. */
	for (uint32_t i = 0; sort != FIGURE_CALLS && i < t->cnt; i++)
		any |= value_of(&t->nodes[i].row, sort);
	sort = any ? sort : FIGURE_CALLS;
	for (uint32_t i = 0; i < t->cnt; i++) {
		t->nodes[i].value = value_of(&t->nodes[i].row, sort);
		by_value[i] = &t->nodes[i];
		t->all += t->nodes[i].up == NO_NODE ? t->nodes[i].value : 0;
	}
	qsort(by_value, t->cnt, sizeof(struct node *), compare_nodes);
	for (uint32_t i = 0; i < t->cnt; i++) {
		struct node *n = by_value[i];
		uint32_t *list = n->up == NO_NODE ? &first : &t->nodes[n->up].first;

		n->next = *list;
		*list = n - t->nodes;
	}
	return first;
}

static bool is_shown(const struct trie *t, const struct node *n)
{
	return t->all && 100 * (double)n->value >= MIN_SHARE * (double)t->all;
}

/* So far in as there are branches above it: a chain of calls goes straight down. */
static unsigned int branches_of(const struct trie *t, const struct node *n)
{
	unsigned int cnt = 0;

	for (; n->up != NO_NODE; n = &t->nodes[n->up]) {
		uint32_t i = t->nodes[n->up].first, shown = 0;

		for (; i != NO_NODE; i = t->nodes[i].next)
			shown += is_shown(t, &t->nodes[i]);
		cnt += shown > 1;
	}
	return cnt;
}

static void fill_node(struct grid *grid, const struct report *r, const struct report_group *rg,
	const struct trie *t, const struct node *n)
{
	struct figure_scope scope = { rg->elapsed_ns, 0, 0 };
	static const struct stats_func timed = { .timed = true };
	struct figures values;

	grid_real(grid, CELL_PERCENT, t->all, t->all ? 100.0 * n->value / t->all : 0);
	grid_textf(grid, "%*s%s", 2 * (int)branches_of(t, n), "", n->name);
	grid_number(grid, n->depth);
	grid_text(grid, n->name);
	figures_of_row(&n->row, &timed, &scope, &values);
	grid_figures(grid, &values);
}

static uint32_t next_shown(const struct trie *t, uint32_t at)
{
	uint32_t next = t->nodes[at].first;

	while (next == NO_NODE || !is_shown(t, &t->nodes[next])) {
		if (at == NO_NODE)
			return NO_NODE;
		next = t->nodes[at].next;
		at = t->nodes[at].up;
	}
	return next;
}

void fill_stacks(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	__cleanup(trie_done) struct trie t = {};
	uint32_t at;

	if (each_row(rg, add_to_trie, &t)) {
		grid->failed = true;
		return;
	}
	at = trie_order(&t, r->choice->sort);
	if (at != NO_NODE && !is_shown(&t, &t.nodes[at]))
		return;
	for (; at != NO_NODE; at = next_shown(&t, at))
		fill_node(grid, r, rg, &t, &t.nodes[at]);
}

/* --- folded ------------------------------------------------------------------------------------ */

struct folding {
	FILE *f;
	enum figure_id sort;
};

/* A frame in a line of frames with ';' between them. */
static void put_frame(FILE *f, const char *name)
{
	_cleanup_free_ char *safe = text_escape(name);

	for (const char *p = safe ? safe : "?"; *p; p++)
		fputc(*p == ';' ? ':' : *p, f);
}

static int print_folded_row(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	const struct folding *to = arg;
	uint64_t value = value_of(row, to->sort);
	const char *cut = end_of(stack);

	if (to->sort != FIGURE_CALLS && to->sort != FIGURE_ERRORS)
		value /= 1000;
	if (!value)
		return 0;
	if (cut)
		fprintf(to->f, "%s;", cut);
	for (size_t i = stack->cnt; i--;) {
		const char *name = stacks_name(s, stack->frames[i]);

		if (!name)
			return -ENOMEM;
		put_frame(to->f, name);
		fputc(';', to->f);
	}
	put_frame(to->f, func);
	fprintf(to->f, " %llu\n", (unsigned long long)value);
	return 0;
}

int print_folded(const struct report *r, FILE *f)
{
	struct folding to = { f, r->choice->sort };
	int code = 0;

	for (size_t i = 0; !code && i < r->cnt; i++)
		code = each_row(&r->group[i], print_folded_row, &to);
	return code;
}

/* --- a flame graph ------------------------------------------------------------------------------ */

/* The page's bytes; @DATA@ in it is where what it shows goes. */
__asm__(".pushsection .rodata\n"
	"flame_page_start:\n"
	".incbin \"cmd/show/flame.html\"\n"
	"flame_page_end:\n"
	".byte 0\n"
	".popsection\n");
extern const char flame_page_start[], flame_page_end[];
#define FLAME_DATA "@DATA@"

static int compare_names(const void *a, const void *b)
{
	const struct node *x = *(struct node *const *)a, *y = *(struct node *const *)b;

	return strcmp(x->name, y->name);
}

/* A string of a script in a page: nothing of it ends that. */
static void put_string(FILE *f, const char *text)
{
	_cleanup_free_ char *safe = text_escape(text);

	fputc('"', f);
	for (const char *p = safe ? safe : "?"; *p; p++)
		if (strchr("\"\\<>&", *p))
			fprintf(f, "\\u%04x", (unsigned int)*p);
		else
			fputc(*p, f);
	fputc('"', f);
}

/* Each name once: nodes have its number. */
static int put_names(struct trie *t, FILE *f)
{
	_cleanup_free_ struct node **by_name = calloc(t->cnt + 1, sizeof(struct node *));
	unsigned int cnt = 0;

	if (!by_name)
		return -ENOMEM;
	for (uint32_t i = 0; i < t->cnt; i++)
		by_name[i] = &t->nodes[i];
	qsort(by_name, t->cnt, sizeof(struct node *), compare_names);
	fputs("\"names\":[\"all\"", f);
	for (uint32_t i = 0; i < t->cnt; i++) {
		if (!i || strcmp(by_name[i]->name, by_name[i - 1]->name)) {
			fputc(',', f);
			put_string(f, by_name[i]->name);
			cnt++;
		}
		by_name[i]->name_id = cnt;
	}
	fputs("],", f);
	return 0;
}

static void put_values(FILE *f, unsigned int name_id, const struct stats_row *row)
{
	fprintf(f, "[%u,%llu,%llu,%llu,[", name_id, (unsigned long long)row->n.calls,
		(unsigned long long)value_of(row, FIGURE_TOTAL), (unsigned long long)row->n.errors);
}

/* The list that begins with node @first, and what is below. Stacks are not deeper than walks. */
static void put_nodes(const struct trie *t, uint32_t first, FILE *f)
{
	for (uint32_t i = first; i != NO_NODE; i = t->nodes[i].next) {
		if (i != first)
			fputc(',', f);
		put_values(f, t->nodes[i].name_id, &t->nodes[i].row);
		put_nodes(t, t->nodes[i].first, f);
		fputs("]]", f);
	}
}

static int put_data(const struct report *r, struct trie *t, FILE *f)
{
	uint32_t first = trie_order(t, r->choice->sort);
	struct stats_row all = {};
	int code;

	for (uint32_t i = first; i != NO_NODE; i = t->nodes[i].next)
		stats_row_add(&all, &t->nodes[i].row);
	fputs("{\"title\":", f);
	put_string(f, r->cnt == 1 ? group_info(r->group[0].s->group).name : "all groups");
	fprintf(f, ",\"chosen\":%d,\"figures\":[{\"name\":\"calls\",\"unit\":\"count\"},"
		   "{\"name\":\"time\",\"unit\":\"ns\"},"
		   "{\"name\":\"errors\",\"unit\":\"count\"}],",
		r->choice->sort == FIGURE_CALLS	? 0
			: r->choice->sort == FIGURE_ERRORS ? 2
							   : 1);
	code = put_names(t, f);
	fputs("\"root\":", f);
	put_values(f, 0, &all);
	put_nodes(t, first, f);
	fputs("]]}", f);
	return code;
}

int print_flame(const struct report *r, FILE *f)
{
	const char *at = strstr(flame_page_start, FLAME_DATA);
	__cleanup(trie_done) struct trie t = {};
	int code = 0;

	for (size_t i = 0; !code && i < r->cnt; i++)
		code = each_row(&r->group[i], add_to_trie, &t);
	if (code)
		return code;
	fwrite(flame_page_start, 1, at - flame_page_start, f);
	code = put_data(r, &t, f);
	at += sizeof(FLAME_DATA) - 1;
	fwrite(at, 1, flame_page_end - at, f);
	return code;
}
