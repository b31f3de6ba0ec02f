// SPDX-License-Identifier: BSD-2-Clause
// The call tree: the paths of a group, callers above callees.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "show/stats.h"

struct node {
	const struct stats_path *path;
	struct node *up, *first, *next; /* caller, first callee, next callee of the caller */
	struct group_func func;
	const char *title;
	unsigned int depth;
	bool timed, shown, again; /* again: recursion, its function is also one of its callers */
	uint64_t total_ns;        /* including all nodes below */
	uint64_t cost_ns;         /* overhead of the probes of its callees */
	uint64_t value;           /* sort value */
};

/* The rows to show, callers first. */
struct tree {
	struct node *nodes;
	struct node **rows;
	size_t node_cnt, row_cnt;
	struct node others; /* dropped calls; .path is NULL if there are none */
};

static void tree_done(struct tree *t)
{
	free(t->nodes);
	free(t->rows);
}

static uint64_t time_of(int64_t ns)
{
	return ns > 0 ? ns : 0;
}

static uint64_t value_of(const struct node *n, enum figure_id sort)
{
	if (sort == SORT_BY_NAME)
		return 0;
	return sort == FIGURE_CALLS       ? n->path->calls
		: sort == FIGURE_SELF ? time_of(n->path->self_ns)
				      : n->total_ns;
}

DEFINE_POINTER_ORDER(compare_depths, struct node, FALLING(depth))

DEFINE_POINTER_ORDER(compare_values, struct node,
	FALLING(value) ?: strcmp(x->func.name, y->func.name) ?: RISING(path->id))

static void node_init(struct node *n, const struct stats *s, const struct stats_path *p)
{
	*n = (struct node) { .path = p, .total_ns = time_of(p->self_ns) };
	n->shown = p->calls || p->self_ns;
	n->timed = p->self_ns;
	if (p->fn == STATS_NO_FN)
		return;
	n->func = group_func(s->group, p->fn);
	n->title = group_func_title(s->group, p->fn);
	n->timed &= s->funcs[p->fn].nested;
}

/* One node per path, in the order of their ids; dropped calls are in .others. */
static void make_nodes(const struct stats *s, struct tree *t)
{
	_cleanup_free_ struct node **by_id = NULL;
	uint32_t most = 0;

	for (size_t i = 0; i < s->path_cnt; i++)
		most = s->paths[i].id > most ? s->paths[i].id : most;
	by_id = xcalloc(most + 1, sizeof(struct node *));
	t->nodes = xcalloc(s->path_cnt + 1, sizeof(*t->nodes));
	t->rows = xcalloc(s->path_cnt + 1, sizeof(struct node *));
	for (size_t i = 0; i < s->path_cnt; i++) {
		const struct stats_path *p = &s->paths[i];
		struct node *n = p->fn == STATS_NO_FN ? &t->others : &t->nodes[t->node_cnt++];

		node_init(n, s, p);
		by_id[p->id] = n;
	}
	for (size_t i = 0; i < t->node_cnt; i++) {
		struct node *n = &t->nodes[i];

		n->up = n->path->caller <= most ? by_id[n->path->caller] : NULL;
		t->rows[i] = n;
	}
}

/*
 * Returns the probe overhead of its calls, assuming that all calls of the function cost the same.
 */
static uint64_t cost_of(const struct stats *s, const struct stats_path *p)
{
	const struct stats_func *f = &s->funcs[p->fn];

	return f->n.calls ? (double)f->cost_ns / f->n.calls * p->calls : 0;
}

/* Sets the depth of each node, and adds it to its caller, the deepest first. */
static void add_up(const struct stats *s, struct tree *t)
{
	for (size_t i = 0; i < t->node_cnt; i++)
		for (struct node *n = &t->nodes[i], *up = n->up; up; up = up->up) {
			n->depth++;
			n->again |= up->path->fn == n->path->fn;
		}
	qsort(t->rows, t->node_cnt, sizeof(struct node *), compare_depths);
	for (size_t i = 0; i < t->node_cnt; i++) {
		struct node *n = t->rows[i];

		if (!n->up)
			continue;
		n->up->total_ns += n->total_ns;
		n->up->cost_ns += cost_of(s, n->path);
		n->up->timed |= n->timed;
		n->up->shown |= n->shown;
	}
}

/* Shows only the first @top nodes of .rows, and their callers. */
static void keep_top(struct tree *t, size_t top)
{
	for (size_t i = 0; i < t->node_cnt; i++)
		t->rows[i]->shown &= i < top;
	for (size_t i = 0; i < t->node_cnt && i < top; i++)
		for (struct node *up = t->rows[i]; up && t->rows[i]->shown; up = up->up)
			up->shown = true;
}

static struct node *next_row(struct node *n)
{
	if (n->first)
		return n->first;
	while (!n->next && n->up)
		n = n->up;
	return n->next;
}

/* Reorders .rows from the order of values to the order of the tree. */
static void walk(struct tree *t)
{
	struct node *first = NULL;

	for (size_t i = t->node_cnt; i--;) {
		struct node *n = t->rows[i], **list = n->up ? &n->up->first : &first;

		if (!n->shown)
			continue;
		n->next = *list;
		*list = n;
	}
	for (struct node *n = first; n; n = next_row(n))
		t->rows[t->row_cnt++] = n;
}

static void tree_make(const struct stats *s, const struct stats_choice *choice, struct tree *t)
{
	make_nodes(s, t);
	add_up(s, t);
	for (size_t i = 0; i < t->node_cnt; i++)
		t->nodes[i].value = value_of(&t->nodes[i], choice->sort);
	qsort(t->rows, t->node_cnt, sizeof(struct node *), compare_values);
	if (choice->top)
		keep_top(t, choice->top);
	walk(t);
}

/* --- as rows and as a document -------------------------------------------------------------- */

static void node_figures(const struct node *n, const struct stats *s,
	const struct figure_scope *scope, struct figures *ret)
{
	uint64_t self = time_of(n->path->self_ns);
	const struct stats_func *f = n->path->fn == STATS_NO_FN ? NULL : &s->funcs[n->path->fn];

	*ret = (struct figures) {
		.noise_ns = f ? f->noise_ns : 0,
		.max_noise_ns = f ? f->max_noise_ns : 0,
		.self_noise_ns = SELF_NOISE(n->cost_ns),
	};
	figure_set(ret, FIGURE_CALLS, true, n->path->calls);
	figure_set(ret, FIGURE_AVG, n->path->calls && n->timed,
		n->path->calls ? n->total_ns / n->path->calls : 0);
	figure_set(ret, FIGURE_TOTAL, n->timed, n->total_ns);
	figure_set(ret, FIGURE_SELF, n->path->self_ns && (!f || f->nested), self);
	if (figure_known(ret, FIGURE_SELF) && scope->all_ns) {
		ret->known |= FIGURE_BIT(FIGURE_TIME);
		ret->value[FIGURE_TIME].x = 100.0 * self / scope->all_ns;
	}
}

static void fill_node(struct grid *grid, const struct node *n, const struct stats *s,
	const struct figure_scope *scope)
{
	struct figures f;

	grid_textf(grid, "%*s%s%s", 2 * (int)n->depth, "", n->title,
		n->again ? " (again)" : "");
	grid_number(grid, n->path->id);
	if (n->up)
		grid_number(grid, n->up->path->id);
	else
		grid_none(grid);
	grid_number(grid, n->depth);
	grid_text(grid, n->func.name);
	grid_text(grid, n->func.library);
	node_figures(n, s, scope, &f);
	grid_figures(grid, &f);
}

void fill_tree(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	const struct figure_scope scope = { .all_ns = stats_all_time(rg->s) };
	__cleanup(tree_done) struct tree t = {};

	tree_make(rg->s, r->choice, &t);
	for (size_t i = 0; i < t.row_cnt; i++)
		fill_node(grid, t.rows[i], rg->s, &scope);
	if (t.others.shown) {
		t.others.title = t.others.func.name = "others";
		fill_node(grid, &t.others, rg->s, &scope);
	}
	if (grid->row_cnt > 1)
		fill_total(grid, rg->s, &scope);
}

static void add_node(struct json *j, const struct node *n, const struct stats *s)
{
	static const struct figure_scope none;
	struct figures f;

	node_figures(n, s, &none, &f);
	json_open(j, '{');
	json_set_u64_if(j, "id", n->func.name, n->path->id);
	json_set_u64_if(j, "caller", n->up, n->up ? n->up->path->id : 0);
	json_set_u64(j, "depth", n->depth);
	json_set_str(j, "function", n->func.name);
	json_set_str(j, "library", n->func.library);
	json_set_bool(j, "again", n->again);
	json_set_u64(j, "calls", n->path->calls);
	json_set_u64_if(j, "total_ns", figure_known(&f, FIGURE_TOTAL), n->total_ns);
	json_set_u64_if(j, "self_ns", figure_known(&f, FIGURE_SELF), time_of(n->path->self_ns));
	json_close(j, '}');
}

void json_add_tree(struct json *j, const struct report_group *rg)
{
	__cleanup(tree_done) struct tree t = {};

	if (!rg->s->paths) {
		json_set_null(j, "tree");
		return;
	}
	tree_make(rg->s, rg->tree, &t);
	json_set_open(j, "tree", '[');
	for (size_t i = 0; i < t.row_cnt; i++)
		add_node(j, t.rows[i], rg->s);
	if (t.others.shown)
		add_node(j, &t.others, rg->s);
	json_close(j, ']');
}
