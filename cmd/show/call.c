// SPDX-License-Identifier: BSD-2-Clause
// Formats one call and its keys as text and as JSON.
#include <limits.h>
#include <math.h>

#include "base/text.h"
#include "base/util.h"
#include "group/stacks.h"
#include "proc/proc.h"
#include "show/call.h"
#include "show/text.h"
#include "stats/stats.h"

#define UNTYPED_ARGS 6 /* of a function of which nothing is declared */

/* --- one value ------------------------------------------------------------------------------ */

/*
 * Common output of both forms. JSON (or NULL for text) quotes values that are not numbers and
 * writes null.
 */
struct form {
	struct out *o;
	struct json *json;
};

/* Must precede each value that is written directly. */
static void begin_value(const struct form *f)
{
	if (f->json)
		json_value(f->json);
}

static void write_unknown(const struct form *f)
{
	begin_value(f);
	out_str(f->o, f->json ? "null" : "?");
}

static void write_word(const struct form *f, uint64_t v)
{
	begin_value(f);
	if (f->json)
		out_char(f->o, '"');
	out_hex(f->o, v);
	if (f->json)
		out_char(f->o, '"');
}

static void write_pointer(const struct form *f, uint64_t v)
{
	if (v)
		write_word(f, v);
	else if (f->json)
		json_null(f->json);
	else
		out_str(f->o, "NULL");
}

static void write_number(const struct form *f, const struct preset_value *v, int64_t n)
{
	begin_value(f);
	if (v->kind == TYPE_BOOL)
		out_str(f->o, n ? "true" : "false");
	else if (v->is_signed)
		out_i64(f->o, n);
	else
		out_u64(f->o, (uint64_t)n);
}

static void write_int(
	const struct form *f, const struct func_types *types, size_t i, uint64_t word)
{
	const struct preset_value *v = &types->args[i].value;
	int64_t n = preset_value_int(v, word);
	char buf[NOTATION_LEN];
	const char *name = arg_name(types, i, n, buf);

	if (!name && v->kind == TYPE_UNKNOWN)
		write_word(f, word);
	else if (!name)
		write_number(f, v, n);
	else if (f->json)
		json_str(f->json, name);
	else
		out_escaped(f->o, name, SIZE_MAX);
}

/* A floating-point argument on the stack. Not optimized, because it is rare. */
static void write_float(const struct form *f, uint32_t size, const unsigned long long *words)
{
	long double big;
	double d = NAN;
	float single = 0;
	char buf[40] = "";

	if (size == sizeof(single)) {
		memcpy(&single, words, sizeof(single));
		d = single;
	} else if (size == sizeof(d)) {
		memcpy(&d, words, sizeof(d));
	} else if (size == sizeof(big)) {
		memcpy(&big, words, sizeof(big));
		d = (double)big;
	}
	begin_value(f);
	if (!isfinite(d)) {
		out_str(f->o,
			f->json            ? "null"
				: isnan(d) ? "nan"
				: d < 0    ? "-inf"
					   : "inf");
		return;
	}
	/* The fewest digits that distinguish it from the adjacent values. */
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, d);
		if (size == sizeof(single) ? strtof(buf, NULL) == single
					   : strtod(buf, NULL) == d)
			break;
	}
	out_str(f->o, buf);
}

/* By its members, if they are known, each of @member bytes. */
static void write_members(
	const struct form *f, uint32_t size, uint32_t member, const unsigned long long *words)
{
	unsigned int in_word = 8 / member, shift;

	for (uint32_t i = 0; i < size / member; i++) {
		shift = 64 - member * 8;
		if (i && !f->json)
			out_char(f->o, ',');
		begin_value(f);
		out_u64(f->o,
			words[i / in_word] >> i % in_word * member * 8 << shift >> shift);
	}
}

/* Writes a structure as words, the last one without the bytes past its end. */
static void write_words(
	const struct form *f, uint32_t size, const unsigned long long *words, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		uint32_t left = size - i * 8;

		if (i && !f->json)
			out_char(f->o, ',');
		write_word(f, left < 8 ? words[i] & ((1ULL << left * 8) - 1) : words[i]);
	}
}

static void write_struct(const struct form *f, const struct preset_arg *a,
	const unsigned long long *words, unsigned int cnt)
{
	if (f->json)
		json_open(f->json, '[');
	else
		out_char(f->o, '{');
	if (a->member_size)
		write_members(f, a->value.size, a->member_size, words);
	else
		write_words(f, a->value.size, words, cnt);
	if (f->json)
		json_close(f->json, ']');
	else
		out_char(f->o, '}');
}

/* Quotes text of the traced process, to distinguish it from funcsnoop's own. */
static void write_quoted(struct out *o, const char *str, size_t len, bool cut)
{
	size_t part;

	out_char(o, '"');
	for (; len; str += part, len -= part) {
		part = strcspn(str, "\"\\");
		part = part < len ? part : len;
		out_escaped(o, str, part);
		if (part == len)
			break;
		out_char(o, '\\');
		out_char(o, str[part++]);
	}
	out_str(o, cut ? "\"..." : "\"");
}

/* Without the beginning of a UTF-8 character that the cut left. */
static size_t whole_len(const char *str, size_t len)
{
	size_t back = 1;

	while (back <= 3 && back < len && utf8_goes_on(str[len - back]))
		back++;
	return back <= len && utf8_len_by(str[len - back]) > back ? len - back : len;
}

static void write_arg(const struct form *f, const struct shown_call *c, size_t i)
{
	const struct preset_arg *a = &c->types->args[i];
	const struct preset_value *v = &a->value;
	bool cut = false;
	const char *str;
	size_t len = 0;
	unsigned int cnt;
	const unsigned long long *words = call_arg_at(c->types, i, c->call, c->more, &cnt);

	if (!words) {
		write_unknown(f);
		return;
	}
	if (a->place.by_ref) {
		write_pointer(f, words[0]);
		return;
	}
	/* Declarations of another user's group are untrusted: the size may exceed the words. */
	if (v->size > cnt * sizeof(*words)) {
		write_unknown(f);
		return;
	}
	switch (v->kind) {
	case TYPE_INT:
	case TYPE_BOOL:
	case TYPE_UNKNOWN:
		write_int(f, c->types, i, words[0]);
		break;
	case TYPE_STRING:
		str = words[0] || cnt > 1 ? call_arg_string(c->types, i, c->call, c->more, &len, &cut)
			       : NULL;
		len = str && cut ? whole_len(str, len) : len;
		if (!str)
			write_pointer(f, words[0]);
		else if (f->json)
			json_str_len(f->json, str, len);
		else
			write_quoted(f->o, str, len, cut);
		break;
	case TYPE_POINTER:
	case TYPE_CLASS:
		write_pointer(f, words[0]);
		break;
	case TYPE_STRUCT:
		write_struct(f, a, words, cnt);
		break;
	case TYPE_FLOAT:
		write_float(f, v->size, words);
		break;
	case TYPE_VOID:
	case TYPE_COMPLEX:
		write_unknown(f);
	}
}

/* --- arguments ------------------------------------------------------------------------------ */

static bool args_typed(const struct shown_call *c)
{
	return c->types && c->types->has_args;
}

static void write_name(const struct form *f, const char *name, size_t i)
{
	char number[] = "arg00";
	size_t nth = i + 1;

	if (f->json && !*name) {
		number[3] = (char)('0' + (nth < 10 ? nth : nth / 10 % 10));
		number[4] = (char)(nth < 10 ? '\0' : '0' + nth % 10);
		json_key(f->json, number);
	} else if (f->json) {
		json_key(f->json, name);
	} else if (*name) {
		out_str(f->o, name);
		out_char(f->o, '=');
	}
}

static void write_args(const struct form *f, const struct shown_call *c)
{
	size_t cnt = args_typed(c) ? c->types->arg_cnt : UNTYPED_ARGS;

	for (size_t i = 0; i < cnt; i++) {
		if (i && !f->json)
			out_str(f->o, ", ");
		write_name(f, args_typed(c) ? c->types->args[i].name : "", i);
		if (args_typed(c))
			write_arg(f, c, i);
		else
			write_word(f, c->call->args.arg[i]);
	}
}

void call_args_text(struct out *o, const struct shown_call *c)
{
	const struct form f = { .o = o };

	if (call_has_args(c->call))
		write_args(&f, c);
	else
		out_char(o, '?');
}

void call_args_json(struct json *j, const struct shown_call *c)
{
	const struct form f = { .o = j->out, .json = j };

	json_key(j, "args");
	if (!call_has_args(c->call)) {
		json_null(j);
		return;
	}
	json_open(j, '{');
	write_args(&f, c);
	json_close(j, '}');
}

/* --- the result ----------------------------------------------------------------------------- */

/* The type of an undeclared result: shows the full register. */
static const struct preset_value undeclared = {
	.kind = TYPE_INT, .size = 8, .is_signed = true
};

static const struct preset_value *ret_type(const struct shown_call *c)
{
	if (!c->types || !c->types->has_ret || c->types->ret.kind == TYPE_UNKNOWN)
		return &undeclared;
	return &c->types->ret;
}

static bool ret_is_pointer(const struct preset_value *v)
{
	return v->kind == TYPE_POINTER || v->kind == TYPE_STRING ||
		v->kind == TYPE_CLASS;
}

/* Other registers than the first for integers are not kept. */
static bool ret_is_seen(const struct shown_call *c, const struct preset_value *v)
{
	return call_has_result(c->call) &&
		(v->kind == TYPE_INT || v->kind == TYPE_BOOL || ret_is_pointer(v));
}

static const struct type_code *ret_code(
	const struct shown_call *c, const struct preset_value *v)
{
	if (!c->types || v->kind != TYPE_INT || !ret_is_seen(c, v))
		return NULL;
	return type_code_find(
		c->types->ret_codes, preset_value_int(v, c->call->result));
}

/* The name of a return code; of a negative errno with its description: "ENOENT (No such file ...)". */
static void code_text(struct out *o, int64_t code, const char *name)
{
	const char *errno_name = code < 0 && code > INT_MIN ? strerrorname_np((int)-code) : NULL;

	out_escaped(o, name, SIZE_MAX);
	if (errno_name && !strcmp(errno_name, name)) {
		out_str(o, " (");
		out_str(o, strerrordesc_np((int)-code));
		out_char(o, ')');
	}
}

void call_result_text(struct out *o, const struct shown_call *c)
{
	const struct form f = { .o = o };
	const struct preset_value *v = ret_type(c);
	const struct type_code *code = ret_code(c, v);

	if (v->kind == TYPE_VOID)
		return;
	if (!ret_is_seen(c, v))
		write_unknown(&f);
	else if (ret_is_pointer(v))
		write_pointer(&f, c->call->result);
	else if (v == &undeclared && c->call->result > INT32_MAX)
		out_hex(o, c->call->result); /* a pointer, as likely as not */
	else
		write_number(&f, v, preset_value_int(v, c->call->result));
	if (code) {
		out_char(o, ' ');
		code_text(o, code->code, code->name);
	}
}

static void call_result_json(struct json *j, const struct shown_call *c)
{
	const struct form f = { .o = j->out, .json = j };
	const struct preset_value *v = ret_type(c);
	const struct type_code *code = ret_code(c, v);

	json_key(j, "ret");
	if (!ret_is_seen(c, v))
		json_null(j);
	else if (ret_is_pointer(v))
		write_pointer(&f, c->call->result);
	else
		write_number(&f, v, preset_value_int(v, c->call->result));
	json_key(j, "ret_name");
	if (code)
		json_str(j, code->name);
	else
		json_null(j);
}

void call_details_json(struct json *j, const struct shown_call *c)
{
	call_args_json(j, c);
	call_result_json(j, c);
	if (call_is_keyed(c))
		call_keys_json(j, c);
	if (call_is_split(c->call)) {
		json_set_u64(j, "queued_ns", c->call->queued);
		json_set_u64(j, "blocked_ns", c->call->blocked);
	}
}

/* --- the call ------------------------------------------------------------------------------- */

uint64_t call_time(const struct shown_call *c, enum call_form form)
{
	return c->call->start + (form == CALL_EXIT ? c->call->duration + c->late_ns : 0);
}

void call_json(struct json *j, const struct shown_call *c, enum call_form form)
{
	static const char *const types[] = {
		[CALL_WHOLE] = "call", [CALL_ENTRY] = "entry", [CALL_EXIT] = "exit"
	};
	const struct call *call = c->call;
	uint64_t ts_ns = call_time(c, form);

	json_open(j, '{');
	json_key(j, "type");
	json_str(j, types[form]);
	json_key(j, "ts_ns");
	json_u64(j, ts_ns);
	json_key(j, "time");
	json_value(j);
	out_char(j->out, '"');
	out_time(j->out, ts_ns + c->ahead_ns);
	out_char(j->out, '"');
	json_key(j, "group");
	json_str(j, c->group);
	json_key(j, "function");
	json_str(j, c->function);
	json_key(j, "pid");
	json_u64(j, call->pid);
	json_key(j, "tid");
	json_u64(j, call->tid);
	json_key(j, "comm");
	json_str(j, call->comm);
	call_args_json(j, c);
	if (form != CALL_ENTRY) {
		call_result_json(j, c);
		json_key(j, "duration_ns");
		if (call_is_timed(call))
			json_u64(j, call->duration);
		else
			json_null(j);
		json_key(j, "noise_ns");
		if (call_is_timed(call))
			json_u64(j, c->noise_ns);
		else
			json_null(j);
		if (call_is_split(call)) {
			json_set_u64(j, "on_cpu_ns", call_on_cpu(call));
			json_set_u64(j, "queued_ns", call->queued);
			json_set_u64(j, "blocked_ns", call->blocked);
		}
		json_key(j, "slow");
		json_bool(j, call->flags & FSN_CALL_SLOW);
		json_key(j, "failed");
		json_bool(j, call->flags & FSN_CALL_FAILED);
	}
	json_key(j, "cookie");
	json_u64(j, call->fn);
	if (call_is_keyed(c))
		call_keys_json(j, c);
	json_close(j, '}');
}

void call_split_text(struct out *o, const struct call *call)
{
	const struct {
		uint64_t ns;
		const char *what;
	} parts[] = { { call->blocked, "blocked" }, { call->queued, "queued" },
		{ call_on_cpu(call), "on the CPU" } };
	double all = (double)call->blocked + call->queued + call_on_cpu(call);
	bool any = false;

	if (!call_is_split(call) || !(all > 0))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		unsigned int percent = parts[i].ns / all * 100 + 0.5;

		if (!percent)
			continue;
		out_printf(o, "%s%u %% %s", any ? ", " : "", percent, parts[i].what);
		any = true;
	}
}

struct shown_call call_of(const struct group *g, const struct types *types,
	const struct call *call, const struct fsn_more *more, uint64_t ahead_ns)
{
	return (struct shown_call){
		.call = call,
		.more = more,
		.group = group_name(g),
		.function = group_func_name(g, call->fn),
		.title = group_func_title(g, call->fn),
		.types = types_of(types, call->fn),
		.ahead_ns = ahead_ns,
	};
}

struct shown_call call_of_slot(const struct group *g, const struct types *types,
	const struct slot_call *from, struct call *ret_call)
{
	*ret_call = (struct call) { .fn = from->fn,
		.pid = (unsigned int)from->pid,
		.tid = (unsigned int)from->tid,
		.args = from->args,
		.flags = FSN_CALL_ENTRY | (from->has_args ? 0 : FSN_CALL_NO_ARGS) };
	return call_of(g, types, ret_call, from->has_more ? &from->more : NULL, 0);
}

/* --- what a key is --------------------------------------------------------------------------- */

/* Returns the declared type of the argument in part @p of a key, or NULL. */
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

/* True if the key is printed in decimal; others are in hexadecimal. */
static bool is_number(const struct func_types *t, const struct func_part *p)
{
	const struct preset_value *v = declared(t, p);

	if (p->by == FSN_BY_MEMBER || p->by == FSN_BY_CLASS)
		return !p->is_address;
	if (p->by != FSN_BY_NUMBER && p->by != FSN_BY_RESULT)
		return !key_is_place(p->by) && p->by != FSN_BY_KERNEL &&
			p->by != FSN_BY_COMMUNICATOR;
	return v && (v->kind == TYPE_INT || v->kind == TYPE_BOOL);
}

static bool is_text(const struct func_part *p)
{
	return p->by == FSN_BY_TEXT || p->by == FSN_BY_COMM || p->by == FSN_BY_WAKER;
}

/* Text that could not be read is marked by its last byte, a member by its next word. */
static bool is_there(const struct func_part *p, const char *text)
{
	return p->by == FSN_BY_MEMBER ? !((const uint64_t *)text)[1]
				      : !is_text(p) || !text[FSN_KEY_TEXT - 1];
}

/* Returns NULL if the value is not a communicator but an address. */
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
	if (key_is_place(p->by))
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

#define FRAMES_IN_LINE 4

void key_stack_text(struct out *o, struct stacks *s, uint64_t number, pid_t pid)
{
	struct stack stack = s ? stacks_get(s, number) : (struct stack) {};

	for (size_t i = 0; i < stack.cnt && i < FRAMES_IN_LINE; i++) {
		const char *name = stacks_name(s, stack.frames[i], pid);

		out_str(o, i ? " < " : "");
		out_str(o, name ? name : "?");
	}
	out_str(o, !stack.cnt ? "?" : stack.cnt > FRAMES_IN_LINE ? " < ..." : "");
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

void json_add_stack(struct json *j, struct stacks *s, uint64_t number, pid_t pid, uint32_t fn)
{
	struct stack stack = s ? stacks_get(s, number) : (struct stack) {};

	json_set_u64(j, "value", number);
	json_set_str(j, "name", NULL);
	if (!s || !number) {
		json_set_null(j, "frames");
		json_set_null(j, "end");
		return;
	}
	stack_begin(s, &stack, pid, fn);
	json_set_open(j, "frames", '[');
	for (size_t i = 0; i < stack.cnt; i++) {
		uint64_t offset;
		const char *file = stacks_place(s, stack.frames[i], &offset);
		size_t cnt = 0;
		const struct frame_name *names = stack_names(s, &stack, i, pid, &cnt);

		for (size_t k = 0; names && k < cnt; k++) {
			json_open(j, '{');
			json_set_str(j, "name", names[k].name);
			json_set_str(j, "file", names[k].is_python ? names[k].source : file);
			if (names[k].is_python)
				json_set_null(j, "offset");
			else
				json_set_hex(j, "offset", offset);
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

static void add_key(struct json *j, struct stacks *stacks, uint32_t fn,
	const struct func_types *t, const struct func_part *p, const struct stats_row *row, size_t i)
{
	uint64_t word = stats_row_word(row, i);
	const char *text = stats_row_text(row, i);
	char name[KEY_TEXT_LEN];

	json_open(j, '{');
	if (key_is_stack(p->by)) {
		json_add_stack(j, stacks, word, row->pid, fn);
		json_close(j, '}');
		return;
	}
	if (!is_there(p, text)) {
		json_set_null(j, "value");
	} else if (is_text(p)) {
		json_set_str(j, "value", text);
	} else if (!is_number(t, p)) {
		json_set_hex(j, "value", word);
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
			add_key(j, keys->stacks, fn, t, &keys->funcs[fn].key[i], row, i);
	}
	json_close(j, '}');
}

/* --- of a single call -------------------------------------------------------------------------- */

bool call_is_keyed(const struct shown_call *c)
{
	return c->keys && c->keys->funcs && c->keys->funcs[c->call->fn].on;
}

/* Computes part @i of a key from the record of the call. False if the record lacks it. */
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
	case FSN_BY_LOCK:
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

bool call_on_stream(const struct shown_call *c)
{
	return c->on_gpu && c->call->args.arg[FSN_GPU_ARG_STREAM] != FSN_GPU_NO_STREAM;
}

const char *call_kernel(const struct shown_call *c)
{
	const struct stats_row *row = c->on_gpu && c->key && c->names
		? stats_row_find(c->names, c->call->fn, (pid_t)c->call->pid, c->key)
		: NULL;

	return row ? row->kernel : NULL;
}

/*
 * Takes the key of the call's row; if the table of rows was full, as far as the call itself has
 * it.
 */
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
	return !key_is_place(p->by) && p->by != FSN_BY_CGROUP && p->by != FSN_BY_COMMUNICATOR &&
		!key_is_stack(p->by) && p->by != FSN_BY_MEMBER;
}

/* Returns false if the call has no such sum, or it is not known. */
static bool sum_of_call(const struct shown_call *c, size_t i, uint64_t *ret_n)
{
	return call_has_args(c->call) && c->types &&
		func_sum_of(&c->keys->funcs[c->call->fn].sum[i], c->types, c->call, c->more, ret_n);
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
		if (key_is_stack(parts[i].by))
			key_stack_text(&text, c->keys->stacks, stats_row_word(&row, i), row.pid);
		else
			key_text(&text, c->types, &parts[i], &row, i);
		out_char(o, ' ');
		out_str(o, c->keys->key[i]);
		out_char(o, '=');
		out_escaped(o, text.buf, text.len);
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
