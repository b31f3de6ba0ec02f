// SPDX-License-Identifier: BSD-2-Clause
// One call as text and as JSON: its arguments and its result by their types.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "show/call.h"

#define UNTYPED_ARGS 6 /* of a function of which nothing is declared */

/* --- one value ------------------------------------------------------------------------------ */

/* What both forms write: JSON (or NULL) quotes what is no number, and says null. */
struct form {
	struct out *o;
	struct json *json;
};

/* Before whatever is written as it is. */
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

/* One that lies on the stack: rare, so it may take its time. */
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
	/* As few digits as tell it from its neighbours. */
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

/* By its words, the last one without what lies behind the structure. */
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

/* Text of the traced process in quotes, so that what is its and what is ours can be told. */
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
	/* Another's text may say anything; ours has as many words as it takes. */
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

/* Of which the whole register is shown. */
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

void code_text(struct out *o, int64_t code, const char *name)
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

void call_result_json(struct json *j, const struct shown_call *c)
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

/* --- the call ------------------------------------------------------------------------------- */

void call_json(struct json *j, const struct shown_call *c, enum call_form form)
{
	static const char *const types[] = {
		[CALL_WHOLE] = "call", [CALL_ENTRY] = "entry", [CALL_EXIT] = "exit"
	};
	const struct call *call = c->call;
	uint64_t ts_ns = call->start + (form == CALL_EXIT ? call->duration : 0);

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
	char text[40];
	bool any = false;

	if (!call_is_split(call) || !(all > 0))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		unsigned int percent = parts[i].ns / all * 100 + 0.5;

		if (!percent)
			continue;
		snprintf(text, sizeof(text), "%s%u %% %s", any ? ", " : "", percent, parts[i].what);
		out_str(o, text);
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
		.types = types_of(types, call->fn),
		.ahead_ns = ahead_ns,
	};
}
