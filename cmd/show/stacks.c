// SPDX-License-Identifier: BSD-2-Clause
// By whom calls were made: stacks as a tree, flat, and of two readings compared.
#include "base/text.h"
#include "base/util.h"
#include "group/stacks.h"
#include "show/stacks.h"
#include "show/text.h"

#define MIN_SHARE 10000 /* default, in millionths */

void trie_done(struct trie *t)
{
	free(t->nodes);
	free(t->places);
	free(t->was);
}

/* --- made of rows ------------------------------------------------------------------------------ */

static uint32_t *place_of(const struct trie *t, uint32_t up, const char *name)
{
	uint64_t hash = hash_add(HASH_BEGIN ^ up, name, strlen(name));

	for (uint64_t i = hash ^ hash >> 32;; i++) {
		uint32_t *place = &t->places[i & (t->place_cnt - 1)];
		const struct node *n = &t->nodes[*place - 1];

		if (!*place || (n->up == up && !strcmp(n->name, name)))
			return place;
	}
}

static void places_grow(struct trie *t)
{
	free(t->places);
	t->place_cnt = t->place_cnt ? 2 * t->place_cnt : 256;
	t->places = xcalloc(t->place_cnt, sizeof(*t->places));
	for (uint32_t i = 0; i < t->cnt; i++)
		*place_of(t, t->nodes[i].up, t->nodes[i].name) = i + 1;
}

struct node *trie_enter(struct trie *t, uint32_t up, const char *name)
{
	uint32_t *place;

	if (2 * t->cnt >= t->place_cnt)
		places_grow(t);
	place = place_of(t, up, name);
	if (*place)
		return &t->nodes[*place - 1];
	t->nodes = array_grow(t->nodes, t->cnt, sizeof(*t->nodes));
	t->nodes[t->cnt] = (struct node) { .name = name,
		.up = up,
		.first = NO_NODE,
		.next = NO_NODE,
		.depth = up == NO_NODE ? 0 : t->nodes[up].depth + 1 };
	*place = t->cnt + 1;
	return &t->nodes[t->cnt++];
}

void trie_pass(struct trie *t, uint32_t *at, const char *name, const struct stats_row *row,
	const struct stats_row *was)
{
	uint32_t cnt = t->cnt;
	struct node *n = trie_enter(t, *at, name);

	if (was && t->cnt > cnt) {
		t->was = array_grow(t->was, cnt, sizeof(*t->was));
		t->was[cnt] = (struct stats_row) {};
	}
	stats_row_add(&n->row, row);
	*at = n - t->nodes;
	if (was)
		stats_row_add(&t->was[*at], was);
}

/* True for frames that all stacks have: thread start, system call entry and context switch. */
static bool is_common(const char *name)
{
	static const char *const names[] = { "_start", "__libc_start_main", "__libc_start_call_main",
		"__libc_start_main_impl", "start_thread", "clone", "clone3", "thread_start",
		"entry_SYSCALL_64_after_hwframe_[k]", "do_syscall_64_[k]", "x64_sys_call_[k]",
		"el0t_64_sync_[k]", "el0t_64_sync_handler_[k]", "el0_svc_[k]", "do_el0_svc_[k]",
		"el0_svc_common.constprop.0_[k]", "invoke_syscall_[k]", "schedule_[k]",
		"__schedule_[k]" };

	return ANY_WHERE(ARRAY_SIZE(names), i, !strcmp(name, names[i]));
}

/* Code of the interpreter that runs the Python functions of the stack. */
static bool is_interpreter(struct stacks *s, uint64_t frame)
{
	uint64_t offset;
	const char *file = stacks_place(s, frame, &offset), *base = file ? strrchr(file, '/') : NULL;

	base = base ? base + 1 : file;
	return base && (!strncmp(base, "python", 6) || !strncmp(base, "libpython", 9));
}

/*
 * Removes frames of @stack that say nothing of the program: those that all have, and the interpreter's
 * where there are functions of Python. One frame stays. @frames has room for all of them.
 */
static void fold(struct stacks *s, struct stack *stack, pid_t pid, uint64_t *frames)
{
	bool is_python = false;
	size_t cnt = 0, names_cnt;

	for (size_t i = 0; i < stack->cnt; i++) {
		const struct frame_name *names = stacks_names(s, stack->frames[i], pid, &names_cnt);

		is_python |= names_cnt && names[0].is_python;
	}
	for (size_t i = 0; i < stack->cnt; i++) {
		const struct frame_name *names = stacks_names(s, stack->frames[i], pid, &names_cnt);
		bool left_out = !names_cnt || is_common(names[names_cnt - 1].name) ||
			(is_python && !names[0].is_python && is_interpreter(s, stack->frames[i]));

		if (!left_out)
			frames[cnt++] = stack->frames[i];
		else if (!i)
			stack->inner = 0;
	}
	if (!cnt && stack->cnt)
		frames[cnt++] = stack->frames[0];
	stack->frames = frames;
	stack->cnt = cnt;
}

void trie_take_below(struct trie *t, uint32_t at, struct stacks *s, const struct stack *stack,
	const char *func, const struct stats_row *row)
{
	const char *cut = stack_cut(stack);
	uint64_t frames[FSN_FRAMES_MAX];
	struct stack folded = *stack;

	if (cut)
		trie_pass(t, &at, cut, row, NULL);
	if (t->folds && stack->cnt <= ARRAY_SIZE(frames)) {
		fold(s, &folded, row->pid, frames);
		stack = &folded;
	}
	for (size_t i = stack->cnt; i--;) {
		size_t cnt = 0;
		const struct frame_name *names = stack_names(s, stack, i, row->pid, &cnt);

		while (cnt--) {
			trie_pass(t, &at, names[cnt].text, row, NULL);
			t->nodes[at].is_python |= names[cnt].is_python;
		}
	}
	if (func)
		trie_pass(t, &at, func, row, NULL);
}

/* Which key of @rg stacks are, those of calls if there are others; -1: none. */
static int stack_key(const struct report_group *rg)
{
	int key = rg->keys.funcs && rg->s->keys_known ? group_keys_find(&rg->keys, "stack") : -1;

	return key >= 0 || !rg->s->keys_known ? key : group_keys_find(&rg->keys, "waker_stack");
}

/* True if the innermost frame of @stack is the library's function of the system call @func. */
static bool is_wrapped(const struct report_group *rg, const struct group_func *func,
	const struct stats_row *row, const struct stack *stack)
{
	return stack->cnt && !strcmp(func->kind, "syscall") &&
		!strcmp(stacks_name(rg->stacks, stack->frames[0], row->pid), func->name);
}

/*
 * Returns the innermost frame to add to a stack: the called function, or the launched kernel of a
 * GPU. NULL if the stack already has it, or is that of a thread which ended the call of another.
 */
static const char *innermost(const struct report_group *rg, const struct stats_func *f,
	const struct stats_row *row, const struct stack *stack)
{
	const struct group *g = rg->s->group;
	const struct group_func func = group_func(g, f->fn);

	if (stack->cnt && group_keys_find(&rg->keys, "stack") < 0)
		return NULL;
	if (group_info(g).gpu && row->kernel)
		return row->kernel;
	if (is_wrapped(rg, &func, row, stack))
		return NULL;
	return func.is_sample && stack->cnt ? NULL : group_func_title(g, f->fn);
}

/* Cuts @stack at the frame of @f, to leave the part inside the call that blocked. */
static void inside_of(const struct report_group *rg, const struct stats_func *f, pid_t pid,
	struct stack *stack)
{
	const char *func = group_func_name(rg->s->group, f->fn);

	for (size_t i = 0; i < stack->cnt; i++) {
		const char *name = stacks_name(rg->stacks, stack->frames[i], pid);

		if (!strcmp(name, func)) {
			stack->cnt = i + 1;
			stack->end = FSN_WALK_OUTERMOST;
		}
	}
}

static void each_sleep(const struct report_group *rg, stack_row_fn each, void *arg)
{
	for (size_t i = 0; rg->stacks && i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];

		for (size_t k = 0; k < f->sleep_cnt; k++) {
			const struct stats_row *row = &f->sleeps[k];
			struct stack stack = stacks_get(rg->stacks, row->key.word[0]);

			inside_of(rg, f, row->pid, &stack);
			each(rg->stacks, &stack,
				stack.cnt ? NULL : group_func_name(rg->s->group, f->fn), row, arg);
		}
	}
}

/* True if @frame of the kernel is of a trap into the kernel at a probe. */
static bool is_of_probe(struct stacks *s, uint64_t frame, pid_t pid)
{
	static const char *const parts[] = { "uprobe", "uretprobe", "exc_int3", "exc_debug",
		"el0_brk64", "el0_dbg" };
	const char *name = stacks_name(s, frame, pid);

	return ANY_WHERE(ARRAY_SIZE(parts), i, strstr(name, parts[i]));
}

/*
 * Cuts the frames of the kernel: its time is that of the code which has entered it, except the time
 * of probes. Returns the innermost frame that takes their place, or NULL.
 */
static const char *leave_kernel(struct stacks *s, struct stack *stack, pid_t pid)
{
	bool probe = false;

	for (; stack_in_kernel(stack); stack->frames++, stack->cnt--)
		probe |= is_of_probe(s, stack->frames[0], pid);
	return probe ? "[probes]" : NULL;
}

void each_stack_row(const struct report_group *rg, stack_row_fn each, void *arg)
{
	int key = rg->stacks && !rg->sleeps ? stack_key(rg) : -1;

	if (rg->sleeps)
		each_sleep(rg, each, arg);

	for (size_t i = 0; key >= 0 && i < rg->func_cnt; i++) {
		const struct stats_func *f = rg->funcs[i];

		for (size_t k = 0; k < f->row_cnt; k++) {
			uint64_t number = stats_row_word(&f->rows[k], key);
			struct stack stack = stacks_get(rg->stacks, number);
			const char *last = rg->no_kernel ?
				leave_kernel(rg->stacks, &stack, f->rows[k].pid) : NULL;

			if (!last)
				stack_begin(rg->stacks, &stack, f->rows[k].pid, f->fn);
			if (number)
				each(rg->stacks, &stack,
					last ? last : innermost(rg, f, &f->rows[k], &stack),
					&f->rows[k], arg);
		}
	}
}

bool stacks_ends(const struct report_group *rg, uint64_t *ret_calls)
{
	int key = rg->stacks ? stack_key(rg) : -1;

	memset(ret_calls, 0, FSN_WALK_ENDS * sizeof(*ret_calls));
	for (size_t i = 0; key >= 0 && i < rg->s->func_cnt; i++) {
		const struct stats_func *f = &rg->s->funcs[i];

		for (size_t k = 0; k < f->row_cnt; k++) {
			uint64_t number = stats_row_word(&f->rows[k], key);
			enum fsn_walk_end end = stacks_get(rg->stacks, number).end;

			if (number && end < FSN_WALK_ENDS)
				ret_calls[end] += f->rows[k].n.calls;
		}
	}
	return key >= 0;
}

bool stacks_of_launches(const struct report_group *rg, uint64_t *ret_kernels, uint64_t *ret_known)
{
	int key = group_info(rg->s->group).gpu ? stack_key(rg) : -1;

	*ret_kernels = *ret_known = 0;
	for (size_t i = 0; key >= 0 && i < rg->s->func_cnt; i++) {
		const struct stats_func *f = &rg->s->funcs[i];

		*ret_kernels += f->row_cnt ? f->n.calls : 0;
		for (size_t k = 0; k < f->row_cnt; k++)
			if (stats_row_word(&f->rows[k], key))
				*ret_known += f->rows[k].n.calls;
	}
	return key >= 0;
}

/* A file without an unwind table, and the calls whose stacks it truncated. */
struct stack_cut_by {
	const char *file; /* NULL: it is not known which */
	uint64_t calls;
};

static void add_cut(struct stack_cut_by **cuts, size_t *cnt, const char *file, uint64_t calls)
{
	for (size_t i = 0; i < *cnt; i++)
		if ((*cuts)[i].file == file) {
			(*cuts)[i].calls += calls;
			return;
		}
	*array_add(*cuts, *cnt) = (struct stack_cut_by) { file, calls };
}

DEFINE_ORDER(compare_cuts, struct stack_cut_by,
	FALLING(calls) ?: x->file && y->file ? strcmp(x->file, y->file) : !x->file - !y->file)

/* Lists all of them, sorted by the number of calls. */
static void find_cuts(const struct report_group *rg, struct stack_cut_by **cuts, size_t *cnt)
{
	int key = rg->stacks ? stack_key(rg) : -1;
	uint64_t offset;

	for (size_t i = 0; key >= 0 && i < rg->s->func_cnt; i++) {
		const struct stats_func *f = &rg->s->funcs[i];

		for (size_t k = 0; k < f->row_cnt; k++) {
			struct stack stack = stacks_get(rg->stacks, stats_row_word(&f->rows[k], key));

			if (stack.cnt && stack.end == FSN_WALK_NO_TABLE && f->rows[k].n.calls)
				add_cut(cuts, cnt,
					stacks_place(rg->stacks, stack.frames[stack.cnt - 1], &offset),
					f->rows[k].n.calls);
		}
	}
	if (*cnt)
		qsort(*cuts, *cnt, sizeof(**cuts), compare_cuts);
}

void stacks_cut_by(const struct report_group *rg, char *text, size_t size)
{
	_cleanup_free_ struct stack_cut_by *cuts = NULL;
	const char *before = ": ";
	size_t cnt = 0, len = 0;

	*text = '\0';
	find_cuts(rg, &cuts, &cnt);
	for (size_t i = 0; i < cnt && i < 3 && len < size; i++, before = ", ") {
		const char *file = cuts[i].file ? cuts[i].file : "?", *base = strrchr(file, '/');

		len += snprintf(text + len, size - len, "%s%llu %s", before,
			(unsigned long long)cuts[i].calls, base ? base + 1 : file);
	}
	if (cnt > 3 && len < size)
		snprintf(text + len, size - len, " and %zu more", cnt - 3);
}

bool stacks_are_split(const struct report_group *rg)
{
	for (size_t i = 0; !rg->sleeps && i < rg->func_cnt; i++)
		if (rg->funcs[i]->split)
			return true;
	return false;
}

/* Callback that adds a stack to the struct trie @arg. */
static void trie_take(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg)
{
	trie_take_below(arg, NO_NODE, s, stack, func, row);
}

/* --- as a tree --------------------------------------------------------------------------------- */

uint64_t stack_value(const struct stats_row *row, enum figure_id sort)
{
	int64_t ns;

	switch ((int)sort) {
	case FIGURE_CALLS:
	case SORT_BY_NAME:
		return row->n.calls;
	case FIGURE_LIVE:
		return row->live.bytes;
	case FIGURE_EXIT:
		return row->exit_bytes;
	case FIGURE_ERRORS:
		return row->n.errors;
	case FIGURE_ON_CPU:
		ns = (int64_t)row->n.on_cpu_ns;
		break;
	case FIGURE_QUEUED:
		return row->n.queued_ns;
	case FIGURE_BLOCKED:
		return row->n.blocked_ns;
	default:
		ns = (int64_t)row->n.total_ns;
	}
	return ns > 0 ? (uint64_t)ns : 0;
}

DEFINE_POINTER_ORDER(compare_nodes, struct node, RISING(rank) ?: -strcmp(x->name, y->name))

/*
 * Returns @sort if it has values, otherwise calls. Calls are a good substitute for a missing time,
 * as of functions that are only counted. For other metrics they are not: then sets *@ret_none.
 */
static enum figure_id known_figure(const struct trie *t, enum figure_id sort, bool *ret_none)
{
	static const enum figure_id known[] = { FIGURE_ERRORS, FIGURE_LIVE, FIGURE_EXIT,
		FIGURE_ON_CPU, FIGURE_QUEUED, FIGURE_BLOCKED };
	bool found = false;

	*ret_none = false;
	if (sort == FIGURE_CALLS || sort == SORT_BY_NAME)
		return FIGURE_CALLS;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		found |= known[i] == sort;
	sort = found ? sort : FIGURE_TOTAL;
	for (uint32_t i = 0; i < t->cnt; i++)
		if (stack_value(&t->nodes[i].row, sort) ||
			(t->was && stack_value(&t->was[i], sort)))
			return sort;
	*ret_none = found;
	return FIGURE_CALLS;
}

/* Sets the value, for two readings the larger one, and the sort rank. */
static void value_node(struct trie *t, uint32_t i)
{
	struct node *n = &t->nodes[i];
	uint64_t now = stack_value(&n->row, t->sort),
		 was = t->was ? stack_value(&t->was[i], t->sort) : now;

	n->value = now > was ? now : was;
	n->rank = !t->was ? now : now > was ? now - was : was - now;
	t->all += n->up == NO_NODE ? n->value : 0;
}

uint32_t trie_order(struct trie *t, enum figure_id sort)
{
	_cleanup_free_ struct node **by_rank = xcalloc(t->cnt + 1, sizeof(struct node *));
	uint32_t first = NO_NODE;

	t->sort = known_figure(t, sort, &t->none);
	for (uint32_t i = 0; i < t->cnt; i++) {
		value_node(t, i);
		by_rank[i] = &t->nodes[i];
	}
	qsort(by_rank, t->cnt, sizeof(struct node *), compare_nodes);
	for (uint32_t i = 0; i < t->cnt; i++) {
		struct node *n = by_rank[i];
		uint32_t *list = n->up == NO_NODE ? &first : &t->nodes[n->up].first;

		n->next = *list;
		*list = n - t->nodes;
	}
	return first;
}

static bool is_shown(const struct trie *t, const struct node *n)
{
	return t->all && n->value >= t->least && 1e6 * (double)n->value >= t->min_share * (double)t->all;
}

/* So far in as there are branches above it: a chain of calls goes straight down. */
static unsigned int trie_branches(const struct trie *t, const struct node *n)
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

static uint32_t trie_next(const struct trie *t, uint32_t at)
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

/* The only node below @at that is shown, if all that @at has is in it; else NO_NODE. */
static uint32_t only_below(const struct trie *t, uint32_t at)
{
	const struct stats_row *own = &t->nodes[at].row, *below;
	uint32_t next = trie_next(t, at);

	if (next == NO_NODE || t->nodes[next].up != at)
		return NO_NODE;
	for (uint32_t i = t->nodes[at].first; i != NO_NODE; i = t->nodes[i].next)
		if (i != next && is_shown(t, &t->nodes[i]))
			return NO_NODE;
	below = &t->nodes[next].row;
	return below->n.calls == own->n.calls && below->n.total_ns == own->n.total_ns &&
			below->n.errors == own->n.errors && below->live.bytes == own->live.bytes &&
			below->exit_bytes == own->exit_bytes ?
		next :
		NO_NODE;
}

/* The names of node @at and of those that are the only one below another; *@at is the last. */
static void chain_text(const struct trie *t, uint32_t *at, struct out *out)
{
	uint32_t next;

	out_str(out, t->nodes[*at].name);
	while ((next = only_below(t, *at)) != NO_NODE) {
		out_str(out, " > ");
		out_str(out, t->nodes[next].name);
		*at = next;
	}
	out_char(out, '\0');
}

static void fill_node(struct grid *grid, const struct report_group *rg,
	const struct trie *t, uint32_t *at)
{
	__cleanup(out_done) struct out out = {};
	const struct node *n = &t->nodes[*at];
	unsigned int indent = 2 * trie_branches(t, n);

	struct figure_scope scope = { .elapsed_ns = rg->elapsed_ns };
	const struct stats_func timed = { .timed = true, .split = t->split };
	struct figures values;

	grid_real(grid, CELL_PERCENT, t->all && !t->none, t->all ? 100.0 * n->value / t->all : 0);
	if (grid->is_table)
		chain_text(t, at, &out);
	grid_textf(grid, "%*s%s", (int)indent, "", out.buf ? out.buf : n->name);
	grid_number(grid, n->depth);
	grid_text(grid, n->name);
	figures_of_row(&n->row, &timed, &scope, &values);
	grid_figures(grid, &values);
}

/*
 * The default order of groups that track allocations is by live memory, or if all processes have
 * exited, by what was live then.
 */
static enum figure_id sort_of_tree(
	const struct trie *t, const struct report *r, const struct report_group *rg)
{
	static const enum figure_id held[] = { FIGURE_LIVE, FIGURE_EXIT };

	for (size_t k = 0; !r->choice->sorted && report_tracks_memory(rg) && k < ARRAY_SIZE(held); k++)
		for (uint32_t i = 0; i < t->cnt; i++)
			if (stack_value(&t->nodes[i].row, held[k]))
				return held[k];
	return r->choice->sort;
}

/* The first node of a tree for people, ordered by @sort, and the next; NO_NODE: none. */
static uint32_t trie_begin(
	struct trie *t, const struct stats_choice *choice, enum figure_id sort)
{
	uint32_t at;

	t->min_share = choice->min_share ? choice->min_share : MIN_SHARE;
	at = trie_order(t, sort);
	return at == NO_NODE || is_shown(t, &t->nodes[at]) ? at : trie_next(t, at);
}

DEFINE_POINTER_ORDER(compare_heavy, struct node, FALLING(value))

/*
 * Limits the tree @t of @grid from node @at to its @top heaviest rows. They are a tree: no node
 * is heavier than its caller. Returns how many rows with the least value are among them.
 */
static size_t trie_limit(struct trie *t, uint32_t at, size_t top, const struct grid *grid)
{
	_cleanup_free_ struct node **rows = xcalloc(t->cnt + 1, sizeof(struct node *));
	size_t cnt = 0, least = 0;

	for (; at != NO_NODE; at = trie_next(t, at)) {
		uint32_t next;

		rows[cnt++] = &t->nodes[at];
		while (grid->is_table && (next = only_below(t, at)) != NO_NODE)
			at = next;
	}
	if (cnt <= top)
		return cnt;
	qsort(rows, cnt, sizeof(struct node *), compare_heavy);
	t->least = rows[top - 1]->value;
	while (least < top && rows[top - 1 - least]->value == t->least)
		least++;
	return least;
}

void fill_stacks(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	__cleanup(trie_done) struct trie t = { .split = stacks_are_split(rg),
		.folds = grid->is_table && !r->choice->all };
	enum figure_id sort;
	size_t least = SIZE_MAX;
	uint32_t at;

	each_stack_row(rg, trie_take, &t);
	sort = sort_of_tree(&t, r, rg);
	if (sort == FIGURE_LIVE || sort == FIGURE_EXIT)
		grid->columns[0].title = sort == FIGURE_LIVE ? "LIVE%" : "EXIT%";
	at = trie_begin(&t, r->choice, sort);
	if (r->choice->top)
		least = trie_limit(&t, at, r->choice->top, grid);
	for (; at != NO_NODE; at = trie_next(&t, at)) {
		if (t.nodes[at].value == t.least && !least)
			continue;
		least -= t.nodes[at].value == t.least;
		fill_node(grid, rg, &t, &at);
	}
}

/* --- as a flat profile ------------------------------------------------------------------------- */

#define FLAT_ROWS 40 /* without --all or --top */

/* The node has the same name further out: its samples are in the total of that already. */
static bool is_recursive(const struct trie *t, const struct node *n)
{
	for (uint32_t up = n->up; up != NO_NODE; up = t->nodes[up].up)
		if (!strcmp(t->nodes[up].name, n->name))
			return true;
	return false;
}

/* Adds up the nodes of @t by name into @flat: .row has the totals, .rank those of leaves. */
static void flat_make(struct trie *t, struct trie *flat)
{
	for (uint32_t i = 0; i < t->cnt; i++) {
		struct node *n = trie_enter(flat, NO_NODE, t->nodes[i].name);

		if (!is_recursive(t, &t->nodes[i]))
			stats_row_add(&n->row, &t->nodes[i].row);
		n->rank += t->nodes[i].row.n.calls;
	}
	for (uint32_t i = 0; i < t->cnt; i++)
		if (t->nodes[i].up != NO_NODE)
			trie_enter(flat, NO_NODE, t->nodes[t->nodes[i].up].name)->rank -=
				t->nodes[i].row.n.calls;
}

DEFINE_ORDER(compare_flat, struct node,
	FALLING(rank) ?: FALLING(row.n.calls) ?: strcmp(x->name, y->name))

void fill_flat(struct grid *grid, const struct report *r, const struct report_group *rg)
{
	__cleanup(trie_done) struct trie t = {}, flat = {};
	size_t top = r->choice->top ? r->choice->top : r->choice->all ? SIZE_MAX : FLAT_ROWS;
	uint64_t all = 0;

	each_stack_row(rg, trie_take, &t);
	flat_make(&t, &flat);
	for (uint32_t i = 0; i < t.cnt; i++)
		all += t.nodes[i].up == NO_NODE ? t.nodes[i].row.n.calls : 0;
	if (flat.cnt)
		qsort(flat.nodes, flat.cnt, sizeof(*flat.nodes), compare_flat);
	for (uint32_t i = 0; i < flat.cnt && i < top; i++) {
		const struct node *n = &flat.nodes[i];

		grid_real(grid, CELL_PERCENT, true, 100.0 * n->rank / all);
		grid_real(grid, CELL_PERCENT, true, 100.0 * n->row.n.calls / all);
		grid_count(grid, true, n->rank);
		grid_text(grid, n->name);
	}
}

/* --- of two readings: --diff with --by stack, or in a form of stacks ----------------------------- */

/* --- which there are ---------------------------------------------------------------------------- */

struct changes {
	struct stack_change *of;
	size_t cnt;
};

/* True if @name is a sampled event: its stack already has the innermost function. */
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

static void add_side(struct changes *c, const struct report_group *rg,
	const struct saved_group *group, bool now)
{
	bool gpu = group_info(rg->s->group).gpu;

	for (size_t i = 0; group && i < group->func_cnt; i++) {
		const struct saved_func *f = &group->funcs[i];
		bool sample = is_sample(rg, f->name);

		for (size_t k = 0; k < f->row_cnt; k++) {
			const struct saved_part *part = saved_part_find(&f->rows[k], "stack")
				?: saved_part_find(&f->rows[k], "waker_stack");
			const struct saved_part *kernel = saved_part_find(&f->rows[k], "kernel");
			struct stack_change *new;

			if (!part || !part->stack)
				continue;
			new = array_add(c->of, c->cnt);
			*new = (struct stack_change) { .stack = part->stack,
				.len = stack_len(part->stack),
				.func = sample && *part->stack ? NULL : f->name };
			if (gpu && kernel && kernel->name)
				new->func = kernel->name;
			saved_row_add(now ? &new->now : &new->was, &f->rows[k].figures);
		}
	}
}

DEFINE_ORDER(compare_changes, struct stack_change,
	strcmp(x->func ? x->func : "", y->func ? y->func : "") ?: RISING(len) ?:
		memcmp(x->stack, y->stack, x->len))

static void add_change(void *to, const void *from)
{
	struct stack_change *x = to;
	const struct stack_change *y = from;

	saved_row_add(&x->was, &y->was);
	saved_row_add(&x->now, &y->now);
}

struct stack_change *stack_changes(const struct report_group *rg, size_t *ret_cnt)
{
	struct changes c = {};

	add_side(&c, rg, rg->before, false);
	add_side(&c, rg, &rg->after->groups[0], true);
	*ret_cnt = rows_group(c.of, c.cnt, sizeof(*c.of), compare_changes, add_change);
	return c.of;
}

/* Converts the metrics that stacks show to a row. */
static struct stats_row row_of_figures(const struct figures *f)
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
	const struct stats_row row = row_of_figures(f);

	return stack_value(&row, sort);
}

void trie_take_changes(struct trie *t, const struct report_group *rg)
{
	size_t cnt;
	_cleanup_free_ struct stack_change *changes = stack_changes(rg, &cnt);

	for (size_t i = 0; i < cnt; i++) {
		const struct stack_change *c = &changes[i];
		const struct stats_row now = row_of_figures(&c->now), was = row_of_figures(&c->was);
		uint32_t at = NO_NODE;

		for (const char *p = c->stack; *p; p += strlen(p) + 1)
			trie_pass(t, &at, p, &now, &was);
		if (c->func)
			trie_pass(t, &at, c->func, &now, &was);
		t->split |= figure_known(&c->now, FIGURE_ON_CPU);
	}
}

/* --- as a tree ------------------------------------------------------------------------------------ */

static void fill_changed_node(struct grid *grid, const struct trie *t, uint32_t i)
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

	trie_take_changes(&t, rg);
	for (at = trie_begin(&t, r->choice, r->choice->sort); at != NO_NODE; at = trie_next(&t, at))
		fill_changed_node(grid, &t, at);
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
	size_t cnt;
	_cleanup_free_ struct stack_change *changes = stack_changes(rg, &cnt);

	json_open(doc, '{');
	json_set_str(doc, "group", group_info(rg->s->group).name);
	json_set_str(doc, "before_since", rg->before ? rg->before->since : NULL);
	json_set_time(doc, "since", rg->s->since_ns);
	json_set_open(doc, "stacks", '[');
	for (size_t i = 0; i < cnt; i++) {
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
		json_flush(doc, f);
	}
	json_close(doc, ']');
	json_close(doc, '}');
	json_flush(doc, f);
	return 0;
}
