// SPDX-License-Identifier: BSD-2-Clause
// A key as text and as JSON: of rows, and of single calls.
#include <stdio.h>
#include <string.h>

#include "group/stacks.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/stats.h"
#include "show/text.h"
#include "stats/stats.h"

/* --- what a key is --------------------------------------------------------------------------- */

/* Of the argument that part @p of a key is, or NULL: nothing is declared. */
static const struct preset_value *declared(const struct func_types *t, const struct func_part *p)
{
	if (p->by == FSN_BY_RESULT)
		return t->has_ret ? &t->ret : NULL;
	return p->arg && p->arg <= t->arg_cnt ? &t->args[p->arg - 1].value : NULL;
}

static const char *code_name(
	const struct func_types *t, const struct func_part *p, uint64_t word, char *buf)
{
	const struct type_code *code;

	if (p->by == FSN_BY_MEMBER || p->by == FSN_BY_CLASS)
		return NULL;
	if (p->by != FSN_BY_RESULT)
		return p->arg && p->arg <= t->arg_cnt ? arg_name(t, p->arg - 1, (int64_t)word, buf)
						      : NULL;
	code = type_code_find(t->ret_codes, (int64_t)word);
	return code ? code->name : NULL;
}

/* Whether it is a number to people: others are in hex. */
static bool is_number(const struct func_types *t, const struct func_part *p)
{
	const struct preset_value *v = declared(t, p);

	if (p->by == FSN_BY_MEMBER || p->by == FSN_BY_CLASS)
		return !p->is_address;
	if (p->by != FSN_BY_NUMBER && p->by != FSN_BY_RESULT)
		return p->by != FSN_BY_CALLER && p->by != FSN_BY_KERNEL &&
			p->by != FSN_BY_COMMUNICATOR;
	return v && (v->kind == TYPE_INT || v->kind == TYPE_BOOL);
}

static bool is_text(const struct func_part *p)
{
	return p->by == FSN_BY_TEXT || p->by == FSN_BY_COMM;
}

/* Text that could not be read is marked by its last byte, a member by its next word. */
static bool is_there(const struct func_part *p, const char *text)
{
	return p->by == FSN_BY_MEMBER ? !((const uint64_t *)text)[1]
				      : !is_text(p) || !text[FSN_KEY_TEXT - 1];
}

/* NULL: it is none, but an address. */
static const struct fsn_communicator *communicator_of(const struct stats_row *row, size_t i)
{
	const struct fsn_communicator *c = (const void *)stats_row_text(row, i);

	return c->ranks ? c : NULL;
}

/* "fa93daea854b060b 3/8", its hash as NCCL's own logs have it. */
static const char *communicator_name(const struct fsn_communicator *c, char *buf)
{
	snprintf(buf, KEY_TEXT_LEN, "%llx %d/%d", c->hash, c->rank, c->ranks);
	return buf;
}

const char *key_name(const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i, char *buf)
{
	if (p->by == FSN_BY_COMMUNICATOR)
		return communicator_of(row, i) ? communicator_name(communicator_of(row, i), buf)
					       : NULL;
	if (p->by == FSN_BY_CALLER)
		return row->place;
	if (p->by == FSN_BY_KERNEL)
		return row->kernel;
	if (p->by == FSN_BY_CGROUP)
		return row->cgroup ? row->cgroup->path : NULL;
	return is_text(p) ? NULL : code_name(t, p, stats_row_word(row, i), buf);
}

void key_value_text(struct out *o, const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i)
{
	uint64_t word = stats_row_word(row, i);
	const char *text = stats_row_text(row, i);

	if (!is_there(p, text))
		out_char(o, '?');
	else if (is_text(p))
		out_str(o, text);
	else if (!is_number(t, p))
		out_hex(o, word);
	else if (p->is_signed)
		out_i64(o, (int64_t)word);
	else
		out_u64(o, word);
}

void key_text(struct out *o, const struct func_types *t, const struct func_part *p,
	const struct stats_row *row, size_t i)
{
	char buf[KEY_TEXT_LEN];
	const char *name = key_name(t, p, row, i, buf);

	if (name)
		out_str(o, name);
	else
		key_value_text(o, t, p, row, i);
}

/* --- JSON -------------------------------------------------------------------------------------- */

static void add_communicator(struct json *j, const struct fsn_communicator *c)
{
	char name[KEY_TEXT_LEN];

	json_set_str(j, "name", c ? communicator_name(c, name) : NULL);
	if (!c)
		return;
	json_set_i64(j, "rank", c->rank);
	json_set_i64(j, "ranks", c->ranks);
	json_set_i64(j, "device", c->device);
}

static void set_said(struct json *j, const char *key, const char *said)
{
	json_set_str(j, key, *said ? said : NULL);
}

void json_add_cgroup(struct json *j, const struct cgroup *c)
{
	static const struct cgroup none;

	c = c ? c : &none;
	set_said(j, "pod_uid", c->pod_uid);
	set_said(j, "container_id", c->container_id);
	set_said(j, "slurm_job", c->slurm_job);
	set_said(j, "unit", c->unit);
}

/* Stack @number of @s, NULL where they are not known. */
static void add_stack(struct json *j, struct stacks *s, uint64_t number, pid_t pid)
{
	struct stack stack = s ? stacks_get(s, number) : (struct stack) {};

	json_set_u64(j, "value", number);
	json_set_str(j, "name", NULL);
	if (!s || !number) {
		json_set_null(j, "frames");
		json_set_null(j, "end");
		return;
	}
	json_set_open(j, "frames", '[');
	for (size_t i = 0; i < stack.cnt; i++) {
		uint64_t offset;
		const char *file = stacks_place(s, stack.frames[i], &offset);
		size_t cnt = 0;
		const struct frame_name *names = stacks_names(s, stack.frames[i], pid, &cnt);
		char hex[TEXT_NUM_LEN];

		snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)offset);
		for (size_t k = 0; names && k < cnt; k++) {
			json_open(j, '{');
			json_set_str(j, "name", names[k].name);
			json_set_str(j, "file", names[k].is_python ? names[k].source : file);
			json_set_str(j, "offset", names[k].is_python ? NULL : hex);
			if (names[k].is_python || stacks_have_lines(s)) {
				json_set_str(j, "source", names[k].source);
				json_set_u64_if(j, "line", names[k].line, names[k].line);
				json_set_bool(j, "inlined", names[k].inlined);
			}
			json_close(j, '}');
		}
	}
	json_close(j, ']');
	json_set_str(j, "end", stack_end_name(stack.end));
}

void json_add_sleeps(struct json *j, const struct report_group *rg, const struct stats_func *f)
{
	json_set_open(j, "blocked_in", '[');
	for (size_t i = 0; i < f->sleep_cnt; i++) {
		const struct stats_row *row = &f->sleeps[i];

		json_open(j, '{');
		json_set_u64(j, "pid", row->pid);
		json_set_u64(j, "stack", row->key.word[0]);
		add_stack(j, rg->stacks, row->key.word[0], row->pid);
		json_set_u64(j, "sleeps", row->n.calls);
		json_set_u64(j, "blocked_ns", row->n.blocked_ns);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void add_key(struct json *j, struct stacks *stacks, const struct func_types *t,
	const struct func_part *p, const struct stats_row *row, size_t i)
{
	uint64_t word = stats_row_word(row, i);
	const char *text = stats_row_text(row, i);
	char hex[TEXT_NUM_LEN], name[KEY_TEXT_LEN];

	json_open(j, '{');
	if (p->by == FSN_BY_STACK) {
		add_stack(j, stacks, word, row->pid);
		json_close(j, '}');
		return;
	}
	if (!is_there(p, text)) {
		json_set_null(j, "value");
	} else if (is_text(p)) {
		json_set_str(j, "value", text);
	} else if (!is_number(t, p)) {
		snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)word);
		json_set_str(j, "value", hex);
	} else if (p->is_signed) {
		json_set_i64(j, "value", (int64_t)word);
	} else {
		json_set_u64(j, "value", word);
	}
	if (p->by == FSN_BY_COMMUNICATOR)
		add_communicator(j, communicator_of(row, i));
	else
		json_set_str(j, "name", key_name(t, p, row, i, name));
	if (p->by == FSN_BY_CGROUP)
		json_add_cgroup(j, row->cgroup);
	json_close(j, '}');
}

void keys_json(struct json *j, const struct group_keys *keys, uint32_t fn,
	const struct func_types *t, const struct stats_row *row)
{
	json_set_open(j, "key", '{');
	for (size_t i = 0; i < keys->key_cnt; i++) {
		json_key(j, keys->key[i]);
		if (keys->funcs[fn].key[i].by == FSN_BY_NONE || row->hidden & 1U << i)
			json_null(j);
		else
			add_key(j, keys->stacks, t, &keys->funcs[fn].key[i], row, i);
	}
	json_close(j, '}');
}

/* --- of a single call -------------------------------------------------------------------------- */

bool call_is_keyed(const struct shown_call *c)
{
	return c->keys && c->keys->funcs && c->keys->funcs[c->call->fn].on;
}

/* Part @i of a key, from what is kept of the call itself; false: that does not tell. */
static bool part_of_call(const struct shown_call *c, const struct func_part *p, size_t i,
	struct stats_row *row)
{
	char *text = (char *)&row->key.word[i * FSN_KEY_WIDE];
	uint64_t *word = (uint64_t *)text;
	const char *str;
	size_t len;
	bool cut;

	switch (p->by) {
	case FSN_BY_NUMBER:
		return call_has_args(c->call) && c->types &&
			call_arg_number(c->types, p->arg, c->call, c->more, word);
	case FSN_BY_CLASS:
		if (!call_has_args(c->call) || !c->types ||
			!call_arg_number(c->types, p->arg, c->call, c->more, word))
			return false;
		*word = key_class(*word);
		return true;
	case FSN_BY_TEXT:
		str = call_has_args(c->call) && c->types && p->arg
			? call_arg_string(c->types, p->arg - 1, c->call, c->more, &len, &cut)
			: NULL;
		if (str)
			memcpy(text, str, len < FSN_KEY_TEXT - 1 ? len : FSN_KEY_TEXT - 1);
		return str;
	case FSN_BY_COMM:
		memcpy(text, c->call->comm, FSN_COMM_LEN);
		return true;
	case FSN_BY_THREAD:
		*word = c->call->tid;
		return true;
	case FSN_BY_RESULT:
		if (!call_has_result(c->call) || c->call->flags & FSN_CALL_ENTRY)
			return false;
		*word = c->types && c->types->has_ret
			? (uint64_t)preset_value_int(&c->types->ret, c->call->result)
			: c->call->result;
		return true;
	default:
		return false;
	}
}

const char *call_kernel(const struct shown_call *c)
{
	const struct stats_row *row = c->on_gpu && c->key && c->names
		? stats_row_find(c->names, c->call->fn, (pid_t)c->call->pid, c->key)
		: NULL;

	return row ? row->kernel : NULL;
}

/* As its row has it or, where there was no room for one, as far as the call tells. */
static bool key_of_call(const struct shown_call *c, struct stats_row *row)
{
	const struct func_part *parts = c->keys->funcs[c->call->fn].key;
	const struct stats_row *named = NULL;
	bool known = c->key;

	*row = (struct stats_row) { .pid = (pid_t)c->call->pid };
	if (c->key)
		row->key = *c->key;
	if (c->key && c->names)
		named = stats_row_find(c->names, c->call->fn, row->pid, c->key);
	if (named) {
		row->place = named->place;
		row->kernel = named->kernel;
	}
	for (size_t i = 0; c->key && c->keys->cgroups && i < c->keys->key_cnt; i++)
		if (parts[i].by == FSN_BY_CGROUP)
			row->cgroup = cgroups_find(c->keys->cgroups, stats_row_word(row, i), 0, 0);
	for (size_t i = 0; !c->key && i < c->keys->key_cnt; i++) {
		if (part_of_call(c, &parts[i], i, row))
			known = true;
		else
			row->hidden |= 1U << i;
	}
	return known;
}

/* Whether a line with arguments and result shows it anyway. */
static bool is_in_line(const struct func_part *p)
{
	return p->by != FSN_BY_CALLER && p->by != FSN_BY_CGROUP && p->by != FSN_BY_COMMUNICATOR &&
		p->by != FSN_BY_STACK && p->by != FSN_BY_MEMBER;
}

/* False: nothing is added up of it, or that is not known. */
static bool sum_of_call(const struct shown_call *c, size_t i, uint64_t *ret_n)
{
	return call_has_args(c->call) && c->types &&
		func_sum_of(&c->keys->funcs[c->call->fn].sum[i], c->types, c->call, c->more, ret_n);
}

#define FRAMES_IN_LINE 4

/* "st_call < st_plain < main": who has made the call, who had called that. */
static void put_stack(struct out *o, struct stacks *s, uint64_t number, pid_t pid)
{
	struct stack stack = s ? stacks_get(s, number) : (struct stack) {};

	for (size_t i = 0; i < stack.cnt && i < FRAMES_IN_LINE; i++) {
		const char *name = stacks_name(s, stack.frames[i], pid);

		out_str(o, i ? " < " : "");
		out_str(o, name ? name : "?");
	}
	out_str(o, !stack.cnt ? "?" : stack.cnt > FRAMES_IN_LINE ? " < ..." : "");
}

static void put_keys(struct out *o, const struct shown_call *c, bool all)
{
	const struct func_part *parts = c->keys->funcs[c->call->fn].key;
	bool known;
	struct stats_row row;

	known = key_of_call(c, &row);
	for (size_t i = 0; known && i < c->keys->key_cnt; i++) {
		struct out text = {};

		if (parts[i].by == FSN_BY_NONE || row.hidden & 1U << i ||
			(!all && is_in_line(&parts[i])))
			continue;
		if (parts[i].by == FSN_BY_STACK)
			put_stack(&text, c->keys->stacks, stats_row_word(&row, i), row.pid);
		else
			key_text(&text, c->types, &parts[i], &row, i);
		out_char(o, ' ');
		out_str(o, c->keys->key[i]);
		out_char(o, '=');
		out_escaped(o, text.buf, text.len);
		o->failed |= text.failed;
		out_done(&text);
	}
}

void call_line_keys_text(struct out *o, const struct shown_call *c)
{
	if (call_is_keyed(c))
		put_keys(o, c, false);
}

void call_keys_text(struct out *o, const struct shown_call *c)
{
	uint64_t n;

	if (!call_is_keyed(c))
		return;
	put_keys(o, c, true);
	for (size_t i = 0; i < c->keys->sum_cnt; i++) {
		if (!sum_of_call(c, i, &n))
			continue;
		out_char(o, ' ');
		out_str(o, c->keys->sum[i]);
		out_char(o, '=');
		if (c->keys->funcs[c->call->fn].sum[i].is_signed)
			out_i64(o, (int64_t)n);
		else
			out_u64(o, n);
	}
}

void call_keys_json(struct json *j, const struct shown_call *c)
{
	struct stats_row row;
	uint64_t n;

	if (!call_is_keyed(c) || !key_of_call(c, &row))
		json_set_null(j, "key");
	else
		keys_json(j, c->keys, c->call->fn, c->types, &row);
	if (!call_is_keyed(c) || !c->keys->sum_cnt) {
		json_set_null(j, "sums");
		return;
	}
	json_set_open(j, "sums", '{');
	for (size_t i = 0; i < c->keys->sum_cnt; i++)
		if (!sum_of_call(c, i, &n))
			json_set_null(j, c->keys->sum[i]);
		else if (c->keys->funcs[c->call->fn].sum[i].is_signed)
			json_set_i64(j, c->keys->sum[i], (int64_t)n);
		else
			json_set_u64(j, c->keys->sum[i], n);
	json_close(j, '}');
}
