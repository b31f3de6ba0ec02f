// SPDX-License-Identifier: BSD-2-Clause
// Writing and reading the types of arguments and results.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "group/records.h"
#include "group/types.h"

_Static_assert(FSN_STRINGS == 2, "as many as struct types_kept has");

/* --- writing --------------------------------------------------------------------------------- */

static const char kind_letters[] = {
	[PRESET_UNKNOWN] = '?',
	[PRESET_VOID] = 'v',
	[PRESET_INT] = 'u',
	[PRESET_BOOL] = 'b',
	[PRESET_POINTER] = 'p',
	[PRESET_STRING] = 's',
	[PRESET_FLOAT] = 'f',
	[PRESET_COMPLEX] = 'z',
	[PRESET_STRUCT] = 't',
	[PRESET_CLASS] = 'o',
};

static char letter_of(const struct preset_value *v)
{
	return v->kind == PRESET_INT && v->is_signed ? 'i' : kind_letters[v->kind];
}

/* "TYPE\nCODE NAME\n...", held once however many functions have it. */
static int write_codes(struct strtab *text, const struct preset_type *type,
	uint32_t *ret_offset, struct err *err)
{
	_cleanup_free_ char *buf = NULL;
	size_t size = 0;
	FILE *f;

	*ret_offset = 0;
	if (!type || !type->code_cnt)
		return 0;
	f = open_memstream(&buf, &size);
	if (!f)
		return err_sys(err, -ENOMEM, "cannot keep names");
	fprintf(f, "%s", type->name);
	for (size_t i = 0; i < type->code_cnt; i++)
		fprintf(f, "\n%" PRId64 " %s", type->codes[i].code, type->codes[i].name);
	if (fclose(f))
		return err_sys(err, -ENOMEM, "cannot keep names");
	return strtab_add(text, buf, ret_offset, err);
}

int types_write_ret(struct strtab *text, const struct preset_func *pf, uint32_t *ret_offset,
	struct err *err)
{
	_cleanup_free_ char *buf = NULL;
	uint32_t codes;
	int code;

	*ret_offset = 0;
	if (!pf->ret_text)
		return 0;
	code = write_codes(text, pf->ret.type, &codes, err);
	if (code)
		return code;
	if (asprintf(&buf, "%c%u %u %s", letter_of(&pf->ret), pf->ret.size, codes,
		    pf->ret_text) < 0)
		return err_sys(err, -ENOMEM, "cannot keep names");
	return strtab_add(text, buf, ret_offset, err);
}

static void write_place(FILE *f, const struct preset_place *p)
{
	if (p->where == PRESET_NOWHERE) {
		fputc('-', f);
		return;
	}
	fprintf(f, "%c%u", p->where == PRESET_REG ? 'r' : 's', p->index);
	if (p->words > 1)
		fprintf(f, "+%u", p->words);
	if (p->by_ref)
		fputc('&', f);
}

int types_write_args(struct strtab *text, const struct preset_func *pf,
	uint32_t *ret_offset, struct err *err)
{
	_cleanup_free_ char *buf = NULL;
	size_t size = 0;
	uint32_t codes;
	int code = 0;
	FILE *f;

	*ret_offset = 0;
	if (!pf->has_args)
		return 0;
	f = open_memstream(&buf, &size);
	if (!f)
		return err_sys(err, -ENOMEM, "cannot keep names");
	/* Of a function without arguments the one empty line. */
	for (size_t i = 0; !code && i < pf->arg_cnt; i++) {
		const struct preset_arg *a = &pf->args[i];

		code = write_codes(text, a->value.type, &codes, err);
		fprintf(f, "%c%u", letter_of(&a->value), a->value.size);
		fprintf(f, a->member_size ? "/%u " : " ", a->member_size);
		write_place(f, &a->place);
		fprintf(f, " %u %s\t%s\n", codes, a->name, a->text);
	}
	if (!pf->arg_cnt)
		fputc('\n', f);
	if (fclose(f))
		return err_sys(err, -ENOMEM, "cannot keep names");
	return code ? code : strtab_add(text, buf, ret_offset, err);
}

struct types_kept types_kept(const struct preset_arg *args, size_t cnt)
{
	struct types_kept kept = { .strings = { -1, -1 } };
	size_t strings = 0;

	for (size_t i = 0; i < cnt; i++) {
		const struct preset_place *p = &args[i].place;
		uint32_t end = p->where == PRESET_STACK ? p->index + p->words : 0;

		if (end > FSN_STACK_WORDS)
			end = FSN_STACK_WORDS;
		if (end > kept.stack_cnt)
			kept.stack_cnt = end;
		if (args[i].value.kind == PRESET_STRING && p->where != PRESET_NOWHERE &&
			(p->where == PRESET_REG || p->index < FSN_STACK_WORDS) &&
			strings < ARRAY_SIZE(kept.strings))
			kept.strings[strings++] = i;
	}
	return kept;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Codes by the offset of their text, as most functions of a library have the same. */
struct codes_at {
	uint32_t offset;
	struct type_codes codes;
};

struct types {
	struct func_types *funcs;
	size_t func_cnt;
	struct codes_at **tables;
	size_t table_cnt;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int compare_codes(const void *a, const void *b)
{
	const struct type_code *x = a, *y = b;

	return (x->code > y->code) - (x->code < y->code);
}

/* The number that a line begins with, or NULL; strtoll() alone goes on to the next line. */
static const char *read_code(const char *line, int64_t *ret_code)
{
	char *end;

	if (*line != '-' && !is_digit(*line))
		return NULL;
	*ret_code = strtoll(line, &end, 10);
	return *end == ' ' ? end + 1 : NULL;
}

static int add_code(struct type_codes *codes, const char *line, const char *end)
{
	struct type_code *more =
		array_grow((void *)codes->code, codes->cnt, sizeof(*more));
	struct type_code *c;

	if (!more)
		return -ENOMEM;
	codes->code = more;
	c = &more[codes->cnt];
	c->name = read_code(line, &c->code);
	if (!c->name)
		return -EPROTO;
	c->len = end - c->name;
	codes->cnt++;
	return 0;
}

/* The codes whose text is at @offset; NULL for offset 0. */
static int codes_at(struct types *t, const struct group *g, uint32_t offset,
	const struct type_codes **ret_codes)
{
	struct codes_at **more, *table;
	const char *line, *end;
	int code = 0;

	*ret_codes = NULL;
	if (!offset)
		return 0;
	for (size_t i = 0; i < t->table_cnt; i++)
		if (t->tables[i]->offset == offset) {
			*ret_codes = &t->tables[i]->codes;
			return 0;
		}
	more = array_grow(t->tables, t->table_cnt, sizeof(*more));
	if (!more)
		return -ENOMEM;
	t->tables = more;
	table = calloc(1, sizeof(*table));
	if (!table)
		return -ENOMEM;
	t->tables[t->table_cnt++] = table;
	table->offset = offset;
	line = strchrnul(group_text(g, offset), '\n');
	for (; !code && *line; line = end) {
		end = strchrnul(++line, '\n');
		code = add_code(&table->codes, line, end);
	}
	if (table->codes.cnt)
		qsort((void *)table->codes.code, table->codes.cnt,
			sizeof(*table->codes.code), compare_codes);
	*ret_codes = &table->codes;
	return code;
}

/* A number at *@p, which is moved behind it; 0 where none begins. */
static uint32_t number(const char **p)
{
	char *end;
	unsigned long n;

	if (!is_digit(**p))
		return 0;
	n = strtoul(*p, &end, 10);
	*p = end;
	return n;
}

static bool skip(const char **p, char c)
{
	if (**p != c)
		return false;
	++*p;
	return true;
}

static bool read_kind(const char **p, struct preset_value *v)
{
	char letter = **p;

	memset(v, 0, sizeof(*v));
	if (!letter)
		return false;
	if (letter == 'i') {
		v->kind = PRESET_INT;
		v->is_signed = true;
	} else {
		const char *at = memchr(kind_letters, letter, sizeof(kind_letters));

		if (!at)
			return false;
		v->kind = at - kind_letters;
	}
	++*p;
	v->size = number(p);
	return true;
}

/* "/4" of a structure, or nothing. */
static bool read_members(const char **p, struct preset_arg *arg)
{
	uint32_t size;

	if (!skip(p, '/'))
		return true;
	size = number(p);
	if ((size != 1 && size != 2 && size != 4 && size != 8) ||
		arg->value.kind != PRESET_STRUCT || arg->value.size % size)
		return false;
	arg->member_size = (uint8_t)size;
	return true;
}

static bool read_place(const char **p, struct preset_place *place)
{
	memset(place, 0, sizeof(*place));
	if (skip(p, '-'))
		return skip(p, ' ');
	place->where = **p == 's' ? PRESET_STACK : PRESET_REG;
	if (!skip(p, 's') && !skip(p, 'r'))
		return false;
	place->index = number(p);
	place->words = skip(p, '+') ? number(p) : 1;
	place->by_ref = skip(p, '&');
	return skip(p, ' ');
}

static int read_ret(
	struct types *t, const struct group *g, const char *p, struct func_types *f)
{
	if (!*p)
		return 0;
	f->has_ret = true;
	if (!read_kind(&p, &f->ret) || !skip(&p, ' '))
		return -EPROTO;
	return codes_at(t, g, number(&p), &f->ret_codes);
}

/* The line's own name; @arg->text is the declaration behind the tab. Both are copies. */
static int read_arg(struct types *t, const struct group *g, const char *p,
	const char *end, struct preset_arg *arg, const struct type_codes **ret_codes)
{
	const char *tab;
	int code;

	if (!read_kind(&p, &arg->value) || !read_members(&p, arg) || !skip(&p, ' ') ||
		!read_place(&p, &arg->place))
		return -EPROTO;
	code = codes_at(t, g, number(&p), ret_codes);
	if (code)
		return code;
	tab = memchr(p, '\t', end - p);
	if (!skip(&p, ' ') || !tab)
		return -EPROTO;
	arg->name = strndup(p, tab - p);
	arg->text = strndup(tab + 1, end - tab - 1);
	return arg->name && arg->text ? 0 : -ENOMEM;
}

static int read_args(
	struct types *t, const struct group *g, const char *text, struct func_types *f)
{
	const struct type_codes **codes;
	struct preset_arg *args;
	const char *end;
	size_t cnt = 0;
	int code = 0;

	if (!*text)
		return 0;
	f->has_args = true;
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		cnt++;
	args = calloc(cnt + 1, sizeof(*args));
	codes = calloc(cnt + 1, sizeof(*codes));
	f->args = args;
	f->arg_codes = (const struct type_codes *const *)codes;
	if (!args || !codes)
		return -ENOMEM;
	for (; !code && *text && *text != '\n'; text = end + 1) {
		end = strchrnul(text, '\n');
		if (!*end)
			return -EPROTO;
		code = read_arg(t, g, text, end, &args[f->arg_cnt], &codes[f->arg_cnt]);
		f->arg_cnt++;
	}
	f->kept = types_kept(args, f->arg_cnt);
	return code;
}

int types_read(const struct group *g, struct types **ret_types, struct err *err)
{
	_cleanup_types_ struct types *t = calloc(1, sizeof(*t));
	int code = 0;

	if (t)
		t->funcs = calloc(g->meta.fn_cnt + 1, sizeof(*t->funcs));
	if (!t || !t->funcs)
		return err_sys(err, -ENOMEM, "cannot read types of group '%s'", g->name);
	for (; !code && t->func_cnt < g->meta.fn_cnt; t->func_cnt++) {
		const struct fsn_func *func = &g->funcs[t->func_cnt];
		struct func_types *f = &t->funcs[t->func_cnt];

		f->kept = types_kept(NULL, 0);
		code = read_ret(t, g, group_text(g, func->ret), f);
		if (!code)
			code = read_args(t, g, group_text(g, func->args), f);
	}
	if (code)
		return err_sys(err, code, "cannot read types of group '%s'", g->name);
	*ret_types = TAKE_PTR(t);
	return 0;
}

void types_free(struct types *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->func_cnt; i++) {
		for (size_t a = 0; a < t->funcs[i].arg_cnt; a++) {
			free((void *)t->funcs[i].args[a].name);
			free((void *)t->funcs[i].args[a].text);
		}
		free((void *)t->funcs[i].args);
		free((void *)t->funcs[i].arg_codes);
	}
	for (size_t i = 0; i < t->table_cnt; i++) {
		free((void *)t->tables[i]->codes.code);
		free(t->tables[i]);
	}
	free(t->tables);
	free(t->funcs);
	free(t);
}

const struct func_types *types_of(const struct types *t, uint32_t fn)
{
	return &t->funcs[fn];
}

const unsigned long long *call_arg_at(const struct func_types *f, size_t i,
	const struct call *c, const struct fsn_more *more, unsigned int *ret_cnt)
{
	const struct preset_place *p = &f->args[i].place;
	const unsigned long long *from = p->where == PRESET_REG ? c->args.arg
		: more                                          ? more->stack
								: NULL;
	uint32_t most = p->where == PRESET_REG ? FSN_ARGS : FSN_STACK_WORDS;

	if (p->where == PRESET_NOWHERE || !from || !p->words || p->index >= most ||
		p->words > most - p->index)
		return NULL;
	*ret_cnt = p->words;
	return from + p->index;
}

const char *call_arg_string(const struct func_types *f, size_t i, const struct fsn_more *more,
	bool *ret_cut)
{
	size_t room = FSN_STR_BYTES / FSN_STRINGS, len;
	const char *str = more ? more->str : NULL;

	if (!str || (f->kept.strings[0] != (int)i && f->kept.strings[1] != (int)i))
		return NULL;
	if (f->kept.strings[1] == (int)i)
		str += room;
	else if (f->kept.strings[1] < 0)
		room = FSN_STR_BYTES;
	len = strnlen(str, room);
	if (len == room || (!len && (unsigned char)str[1] == 0xff))
		return NULL;
	*ret_cut = len == room - 1;
	return str;
}

const struct type_code *type_code_find(const struct type_codes *codes, int64_t code)
{
	const struct type_code key = { .code = code };

	if (!codes || !codes->cnt)
		return NULL;
	return bsearch(
		&key, codes->code, codes->cnt, sizeof(*codes->code), compare_codes);
}

char *types_code_name(const struct group *g, uint32_t fn, int64_t code)
{
	const char *p = group_text(g, g->funcs[fn].ret), *line, *name;
	struct preset_value value;
	int64_t got;

	if (!read_kind(&p, &value) || !skip(&p, ' '))
		return NULL;
	line = group_text(g, number(&p));
	while ((line = strchr(line, '\n'))) {
		name = read_code(++line, &got);
		if (name && got == code)
			return strndup(name, strcspn(name, "\n"));
	}
	return NULL;
}
