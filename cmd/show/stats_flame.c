// SPDX-License-Identifier: BSD-2-Clause
// Stacks in forms that other programs show: folded lines, and a page with a flame graph.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "show/stacks.h"

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
	uint64_t value = stack_value(row, to->sort);
	const char *cut = stack_cut(stack);

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
		code = each_stack_row(&r->group[i], print_folded_row, &to);
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
		(unsigned long long)stack_value(row, FIGURE_TOTAL), (unsigned long long)row->n.errors);
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
		code = each_stack_row(&r->group[i], trie_take, &t);
	if (code)
		return code;
	fwrite(flame_page_start, 1, at - flame_page_start, f);
	code = put_data(r, &t, f);
	at += sizeof(FLAME_DATA) - 1;
	fwrite(at, 1, flame_page_end - at, f);
	return code;
}
