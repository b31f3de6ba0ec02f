/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks of calls, put together: what a tree of them and forms for other programs are made of. */
#pragma once

#include "group/stacks.h"
#include "show/stats.h"

#define NO_NODE UINT32_MAX

/* A frame under those that lead to it, or a function of the group. */
struct node {
	const char *name;
	uint32_t up, first, next;
	unsigned int depth, name_id;
	bool is_python;      /* a frame of Python's */
	uint64_t value, rank; /* value; sort rank */
	struct stats_row row; /* of all stacks that pass here, or end */
};

struct trie {
	struct node *nodes;
	struct stats_row *was; /* the earlier reading of each node if two are compared, or NULL */
	uint32_t cnt;
	uint32_t *places; /* by parent and name: number of a node + 1 */
	size_t place_cnt;
	uint64_t all;
	enum figure_id sort; /* the metric to sort by */
	bool none;           /* .sort is calls, because the requested metric is not known */
	bool holds;         /* live memory is known */
	uint32_t min_share; /* in millionths; the tree omits nodes with less */
	uint64_t least;     /* value; the tree omits nodes with less */
	bool split;         /* on-CPU, runnable and blocked times are known */
	bool folds;         /* omit frames that all stacks have */
};

void trie_done(struct trie *t);

/* Writes a page with @t, whose calls are threads. */
void print_flame_threads(struct trie *t, const char *title, FILE *f);

/* The node @name under @up, a new one where there is none. */
struct node *trie_enter(struct trie *t, uint32_t up, const char *name);

/*
 * Moves *@at to its child @name and adds @row. @was is the earlier value if two readings are
 * compared, otherwise NULL.
 */
void trie_pass(struct trie *t, uint32_t *at, const char *name, const struct stats_row *row,
	const struct stats_row *was);

/* Called for each row with a known stack. */
typedef void (*stack_row_fn)(struct stacks *s, const struct stack *stack, const char *func,
	const struct stats_row *row, void *arg);

/* Calls @each for those of @rg. */
void each_stack_row(const struct report_group *rg, stack_row_fn each, void *arg);

/* Whether it is known of some function where its calls' times went. */
bool stacks_are_split(const struct report_group *rg);

/* Adds a row to @t, its outermost frame below node @up (NO_NODE: to the roots). */
void trie_take_below(struct trie *t, uint32_t up, struct stacks *s, const struct stack *stack,
	const char *func, const struct stats_row *row);

/* Returns the value of metric @sort of a row: calls, errors, or ns. */
uint64_t stack_value(const struct stats_row *row, enum figure_id sort);

/*
 * Orders nodes that are below the same one: the most first. The first of those that are below
 * none, or NO_NODE.
 */
uint32_t trie_order(struct trie *t, enum figure_id sort);

/* --- comparison of two readings ------------------------------------------------------------- */

/* The calls of one stack before and after. Valid as long as the report's readings. */
struct stack_change {
	const char *func;  /* called function; NULL: the stack already has it */
	const char *stack; /* in the format of struct saved_part, .len bytes */
	size_t len;
	struct figures was, now;
};

/* Lists those of @rg, which has .before and .after. The caller frees the array; NULL if empty. */
struct stack_change *stack_changes(const struct report_group *rg, size_t *ret_cnt);

/* Adds them to @t. */
void trie_take_changes(struct trie *t, const struct report_group *rg);

/* As stack_value(). */
uint64_t stack_change_value(const struct figures *f, enum figure_id sort);
