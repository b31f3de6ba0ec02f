// SPDX-License-Identifier: BSD-2-Clause
// Compiles conditions on arguments for the BPF programs, and writes filters into their maps.
#include <ctype.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>
#include <linux/magic.h>

#include "base/text.h"
#include "base/util.h"
#include "group/filter.h"
#include "group/records.h"
#include "pins/bpffs.h"
#include "pins/maps.h"
#include "proc/proc.h"
#include "shared/layout.h"

_Static_assert(CONDITION_LEN == FSN_COND_LEN, "all of it is kept");
_Static_assert(CONDITION_TERMS == FSN_COND_TERMS, "all of them are asked");

__attribute__((format(printf, 4, 5))) static int fail_at(
	const char *text, size_t at, struct err *err, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return err_set(err, -ERR_USAGE, "--if '%s', character %zu: %s", text, at + 1, what);
}

/* --- reading -------------------------------------------------------------------------------- */

struct reading {
	const char *text;
	size_t at;
	struct err *err;
};

static void skip_blanks(struct reading *r)
{
	r->at += strspn(r->text + r->at, " \t");
}

/* A name as C has it, with the colons that C++ puts into some. */
static size_t name_len(const char *p)
{
	size_t len = 0;

	while (isalnum((unsigned char)p[len]) || p[len] == '_' || p[len] == ':')
		len++;
	return isdigit((unsigned char)*p) ? 0 : len;
}

static int read_name(struct reading *r, const char *what, char *buf, size_t *ret_at)
{
	size_t len;

	skip_blanks(r);
	*ret_at = r->at;
	len = name_len(r->text + r->at);
	if (!len || len >= CONDITION_NAME_LEN)
		return fail_at(r->text, r->at, r->err, "%s is missing here", what);
	memcpy(buf, r->text + r->at, len);
	buf[len] = '\0';
	r->at += len;
	return 0;
}

static int read_how(struct reading *r, struct condition_term *t)
{
	static const struct {
		const char *sign;
		unsigned int how;
	} signs[] = {
		{ "==", FSN_EQUAL },
		{ "!=", FSN_BELOW | FSN_ABOVE },
		{ "<=", FSN_BELOW | FSN_EQUAL },
		{ ">=", FSN_ABOVE | FSN_EQUAL },
		{ "<", FSN_BELOW },
		{ ">", FSN_ABOVE },
	};

	skip_blanks(r);
	t->how_at = r->at;
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
		if (!strncmp(r->text + r->at, signs[i].sign, strlen(signs[i].sign))) {
			t->how = signs[i].how;
			r->at += strlen(signs[i].sign);
			return 0;
		}
	return fail_at(r->text, r->at, r->err, "one of == != < <= > >= is missing here");
}

/* Reads "..."; a backslash quotes the next character. */
static int read_text(struct reading *r, struct condition_term *t)
{
	size_t len = 0;

	t->kind = CONDITION_TEXT;
	for (r->at++; r->text[r->at] != '"'; r->at++) {
		if (r->text[r->at] == '\\')
			r->at++;
		if (!r->text[r->at])
			return fail_at(r->text, t->value_at, r->err, "the text has no end");
		if (len == FSN_COND_TEXT - 1)
			return fail_at(r->text, t->value_at, r->err,
				"the text is longer than %d bytes", FSN_COND_TEXT - 1);
		t->value[len++] = r->text[r->at];
	}
	t->value[len] = '\0';
	r->at++;
	if (t->how != FSN_EQUAL && t->how != (FSN_BELOW | FSN_ABOVE))
		return fail_at(r->text, t->how_at, r->err,
			"text is compared by == and != only");
	return 0;
}

static int read_number(struct reading *r, struct condition_term *t)
{
	static const char units[] = "KMG";
	const char *p = r->text + r->at, *unit;
	unsigned int shift = 0;
	char *end;

	t->kind = CONDITION_NUMBER;
	t->negative = *p == '-';
	p += t->negative;
	errno = 0;
	t->number = strtoull(p, &end, strncmp(p, "0x", 2) ? 10 : 16);
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (unsigned int)(unit - units + 1);
		end++;
	}
	if (!isdigit((unsigned char)*p) || isalnum((unsigned char)*end) || *end == '_')
		return fail_at(r->text, r->at, r->err,
			"expected a number (optionally with K, M or G), a name or \"text\"");
	if (errno || t->number > (t->negative ? 1ULL << 63 : UINT64_MAX) >> shift)
		return fail_at(r->text, r->at, r->err, "the number is too large");
	t->number <<= shift;
	r->at = end - r->text;
	return 0;
}

static int read_value(struct reading *r, struct condition_term *t)
{
	skip_blanks(r);
	t->value_at = r->at;
	if (r->text[r->at] == '"')
		return read_text(r, t);
	if (!name_len(r->text + r->at))
		return read_number(r, t);
	t->kind = CONDITION_NAME;
	return read_name(r, "a value", t->value, &t->value_at);
}

static int read_terms(struct reading *r, struct condition *c)
{
	for (;;) {
		struct condition_term *t = &c->term[c->term_cnt];
		int code;

		skip_blanks(r);
		if (c->term_cnt == CONDITION_TERMS)
			return fail_at(r->text, r->at, r->err, "more than %d terms",
				CONDITION_TERMS);
		code = read_name(r, "an argument's name", t->arg, &t->arg_at);
		if (!code)
			code = read_how(r, t);
		if (!code)
			code = read_value(r, t);
		if (code)
			return code;
		c->term_cnt++;
		skip_blanks(r);
		if (!r->text[r->at])
			return 0;
		if (strncmp(r->text + r->at, "&&", 2))
			return fail_at(r->text, r->at, r->err, "&& or the end is missing here");
		r->at += 2;
	}
}

int condition_parse(const char *text, struct condition *ret_condition, struct err *err)
{
	struct reading r = { .text = ret_condition->text, .err = err };

	memset(ret_condition, 0, sizeof(*ret_condition));
	if (strlen(text) >= sizeof(ret_condition->text))
		return err_set(err, -ERR_USAGE, "--if is longer than %d bytes", CONDITION_LEN - 1);
	memcpy(ret_condition->text, text, strlen(text));
	return read_terms(&r, ret_condition);
}

/* --- binding -------------------------------------------------------------------------------- */

struct binding {
	const struct condition *c;
	const struct condition_term *t;
	const struct condition_func *f;
	const struct preset_arg *arg; /* NULL: nothing is declared */
	size_t nth;                   /* of .f->args */
	struct err *err;
};

/* N of argN, or 0. */
static size_t number_of(const char *name)
{
	size_t n = 0, len = strlen(name);

	if (strncmp(name, "arg", 3) || len < 4 || len > 5 || name[3] == '0')
		return 0;
	for (const char *p = name + 3; *p; p++) {
		if (!isdigit((unsigned char)*p))
			return 0;
		n = n * 10 + (size_t)(*p - '0');
	}
	return n;
}

/* By its name, else by its number; *@ret_nth. */
static bool find_arg(const struct condition_func *f, const char *name, size_t *ret_nth)
{
	size_t number = number_of(name), nth;

	if (f->regs == FSN_REGS_UNKNOWN)
		return false;
	if (!f->has_args) {
		*ret_nth = number - 1;
		return number && number <= FSN_ARGS;
	}
	for (nth = 0; nth < f->arg_cnt; nth++)
		if (!strcmp(f->args[nth].name, name))
			break;
	*ret_nth = nth < f->arg_cnt ? nth : number - 1;
	return *ret_nth < f->arg_cnt;
}

int condition_arg_at(const struct condition_func *f, size_t nth, unsigned char *ret_where,
	const char **ret_why)
{
	const struct preset_place *place;

	*ret_where = (unsigned char)(1 + nth + (f->regs == FSN_REGS_GO ? FSN_GO_REG : 0));
	if (!f->has_args)
		return 0;
	place = &f->args[nth].place;
	switch (f->args[nth].value.kind) {
	case TYPE_FLOAT:
	case TYPE_COMPLEX:
		*ret_why = "is a floating point number, which programs can't see";
		return -EINVAL;
	case TYPE_STRUCT:
	case TYPE_CLASS:
	case TYPE_VOID:
		*ret_why = "is a structure";
		return -EINVAL;
	default:
		break;
	}
	*ret_why = "is a string of Go, which has a length in place of a last byte";
	if (place->where == PLACE_GO && place->words > 1)
		return -EINVAL;
	*ret_why = "has a size that no register has";
	if (!preset_value_fits_word(&f->args[nth].value))
		return -EINVAL;
	*ret_why = "can't be seen at the entry";
	if (place->where == PLACE_REG && place->index < FSN_ARGS)
		*ret_where = (unsigned char)(1 + place->index);
	else if (place->where == PLACE_GO && place->index < FSN_STR_KERNEL - FSN_GO_REG - 1)
		*ret_where = (unsigned char)(FSN_GO_REG + 1 + place->index);
	else if (place->where == PLACE_EVENT && place->index < FSN_EVENT_ARGS)
		*ret_where = (unsigned char)(1 + place->index);
	else if (place->where == PLACE_RECORD && place->index < FSN_EVENT_ARGS)
		*ret_where = (unsigned char)(FSN_STR_KERNEL + 1 + place->index);
	else if (place->where == PLACE_STACK && place->index < FSN_STR_KERNEL)
		*ret_where = (unsigned char)(FSN_STR_STACK + place->index);
	else
		return -EINVAL;
	return 0;
}

int condition_arg(const struct condition_func *f, const char *name, unsigned char *ret_where,
	size_t *ret_nth, const char **ret_why)
{
	size_t nth;

	if (!find_arg(f, name, &nth))
		return -ENOENT;
	*ret_nth = f->has_args ? nth : f->arg_cnt;
	return condition_arg_at(f, nth, ret_where, ret_why);
}

static bool find_code(const struct binding *b, int64_t *ret_code)
{
	const struct type_codes *codes = b->f->codes ? b->f->codes[b->nth] : NULL;
	const struct preset_type *type = b->arg->value.type;
	const char *name = b->t->value;

	for (size_t i = 0; codes && i < codes->cnt; i++)
		if (!strcmp(codes->code[i].name, name)) {
			*ret_code = codes->code[i].code;
			return true;
		}
	for (size_t i = 0; !b->f->codes && type && i < type->code_cnt; i++)
		if (!strcmp(type->codes[i].name, name)) {
			*ret_code = type->codes[i].code;
			return true;
		}
	return false;
}

static int bind_name(const struct binding *b, struct fsn_term *ret)
{
	const char *name = b->t->value;
	int64_t number;

	if (b->arg && find_code(b, &number))
		ret->value[0] = (unsigned long long)number;
	else if (!strcmp(name, "true"))
		ret->value[0] = 1;
	else if (strcmp(name, "NULL") && strcmp(name, "false"))
		return fail_at(b->c->text, b->t->value_at, b->err,
			"'%s' has no value '%s'; put text in double quotes", b->t->arg, name);
	return 0;
}

static int bind_text(const struct binding *b, struct fsn_term *ret)
{
	if (b->arg && b->arg->value.kind != TYPE_STRING &&
		b->arg->value.kind != TYPE_UNKNOWN)
		return fail_at(b->c->text, b->t->value_at, b->err, "'%s' is not text",
			b->t->arg);
	ret->width = 0;
	memcpy(ret->value, b->t->value, FSN_COND_TEXT);
	return 0;
}

static int bind_number(const struct binding *b, struct fsn_term *ret)
{
	uint64_t number = b->t->number;
	uint64_t most = UINT64_MAX >> (64 - ret->width + ret->is_signed);

	if (b->t->negative && number && !ret->is_signed)
		return fail_at(b->c->text, b->t->value_at, b->err, "'%s' is never negative",
			b->t->arg);
	if (b->t->negative && number && number - 1 > most)
		return fail_at(b->c->text, b->t->value_at, b->err,
			"'%s' is never as small", b->t->arg);
	if (!b->t->negative && number > most)
		return fail_at(b->c->text, b->t->value_at, b->err,
			"'%s' is never as large", b->t->arg);
	ret->value[0] = b->t->negative ? -number : number;
	return 0;
}

/* Returns -ENOENT if the function has no such argument. */
static int bind_term(struct binding *b, struct fsn_term *ret)
{
	const struct preset_value *v;
	const char *why = "";
	int code;

	ret->how = (unsigned char)b->t->how;
	ret->width = 64;
	ret->is_signed = true;
	code = condition_arg(b->f, b->t->arg, &ret->where, &b->nth, &why);
	if (code == -EINVAL)
		return fail_at(b->c->text, b->t->arg_at, b->err, "'%s' %s", b->t->arg, why);
	if (code)
		return code;
	if (b->f->has_args) {
		b->arg = &b->f->args[b->nth];
		v = &b->arg->value;
		if (v->kind == TYPE_INT || v->kind == TYPE_BOOL)
			ret->width = (unsigned char)(v->size < 8 ? v->size * 8 : 64);
		ret->is_signed = v->kind == TYPE_UNKNOWN ||
			(v->kind == TYPE_INT && v->is_signed);
		if (v->kind == TYPE_STRING && b->t->kind == CONDITION_NUMBER && b->t->number)
			return fail_at(b->c->text, b->t->value_at, b->err,
				"'%s' is text, which is compared with \"text\"", b->t->arg);
	}
	switch (b->t->kind) {
	case CONDITION_TEXT:
		return bind_text(b, ret);
	case CONDITION_NAME:
		return bind_name(b, ret);
	default:
		return bind_number(b, ret);
	}
}

/* For a term: whether a function supports it, and why the first one with it does not. */
struct verdict {
	bool asked;
	struct err why;
};

static void bind_func(const struct condition *c, const struct condition_func *f,
	struct verdict *verdicts, struct fsn_cond *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->term_cnt = (unsigned int)c->term_cnt;
	for (size_t i = 0; i < c->term_cnt; i++) {
		struct err why = {};
		struct binding b = { .c = c, .t = &c->term[i], .f = f, .err = &why };
		int code = bind_term(&b, &ret->term[i]);

		verdicts[i].asked |= !code;
		ret->never |= code != 0;
		if (why.code && !verdicts[i].why.code)
			verdicts[i].why = why;
	}
}

void condition_hint(const struct condition_func *funcs, size_t cnt, const char *name,
	struct err *err)
{
	const struct condition_func *bare = NULL;
	struct suggest near;
	char text[ERR_HINT_LEN];

	suggest_init(&near, name);
	for (size_t i = 0; i < cnt; i++) {
		for (size_t k = 0; k < funcs[i].arg_cnt; k++)
			if (funcs[i].args[k].name[0])
				suggest_offer(&near, funcs[i].args[k].name, NULL);
		if (!funcs[i].has_args && !bare)
			bare = &funcs[i];
	}
	if (suggest_text(&near, text, sizeof(text)))
		err_hint(err, "%s", text);
	else if (bare && bare->types_why)
		err_hint(err,
			"'%s': %s; declare \"args\" in a configuration, or use arg1 to arg%d",
			bare->name, bare->types_why, FSN_ARGS);
	else if (bare)
		err_hint(err,
			"arguments that are not declared in a configuration are arg1 to arg%d",
			FSN_ARGS);
}

static int fail_unknown(const struct condition *c, const struct condition_term *t,
	const struct condition_func *funcs, size_t cnt, struct err *err)
{
	bool some = false;

	for (size_t i = 0; i < cnt; i++)
		some |= funcs[i].has_args && funcs[i].regs != FSN_REGS_UNKNOWN;
	if (some)
		fail_at(c->text, t->arg_at, err, "no function has an argument '%s'", t->arg);
	else
		fail_at(c->text, t->arg_at, err, "no argument '%s' is known", t->arg);
	condition_hint(funcs, cnt, t->arg, err);
	return -ERR_USAGE;
}

int condition_bind(const struct condition *c, const struct condition_func *funcs, size_t cnt,
	struct fsn_cond *ret_conds, size_t *ret_never, struct err *err)
{
	struct verdict verdicts[CONDITION_TERMS] = {};
	size_t never = 0;

	for (size_t i = 0; i < cnt; i++) {
		bind_func(c, &funcs[i], verdicts, &ret_conds[i]);
		never += ret_conds[i].never;
	}
	for (size_t i = 0; i < c->term_cnt; i++) {
		if (verdicts[i].asked)
			continue;
		if (!verdicts[i].why.code)
			return fail_unknown(c, &c->term[i], funcs, cnt, err);
		if (err)
			*err = verdicts[i].why;
		return verdicts[i].why.code;
	}
	if (cnt && never == cnt)
		return fail_at(c->text, 0, err, "no function has all of these arguments");
	*ret_never = never;
	return 0;
}

static int put(int fd, const void *key, const char *what, struct err *err)
{
	uint32_t one = 1;

	if (!bpf_map_update_elem(fd, key, &one, 0))
		return 0;
	if (errno == E2BIG)
		return err_set(err, -E2BIG, "too many filters by %s", what);
	return err_sys(err, -errno, "cannot filter by %s", what);
}

static int comm_key(const char *name, struct fsn_comm *ret_comm, struct err *err)
{
	*ret_comm = (struct fsn_comm) {};
	if (!*name || strlen(name) >= sizeof(ret_comm->comm))
		return err_set(err, -EINVAL, "command '%s' has not 1 to %zu bytes", name,
			sizeof(ret_comm->comm) - 1);
	memcpy(ret_comm->comm, name, strlen(name));
	return 0;
}

static int put_comm(int fd, const char *name, struct err *err)
{
	struct fsn_comm comm;
	int code = comm_key(name, &comm, err);

	return code ? code : put(fd, &comm, "command", err);
}

static int put_cgroup(int map_fd, uint32_t i, const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct statfs st;

	if (i >= FSN_CGROUPS_MAX)
		return err_set(err, -E2BIG, "more than %d cgroups", FSN_CGROUPS_MAX);
	if (fd < 0)
		return err_sys(err, -errno, "cannot open cgroup '%s'", path);
	if (fstatfs(fd, &st) || (unsigned long)st.f_type != CGROUP2_SUPER_MAGIC) {
		_cleanup_free_ char *mount = cgroup_mount("/proc");

		err_set(err, -EINVAL, "'%s' is not a directory of cgroup v2", path);
		return mount ? err_hint(err, "use a directory below '%s'", mount)
			     : err_hint(err, "cgroup v2 is not mounted");
	}
	if (bpf_map_update_elem(map_fd, &i, &fd, 0))
		return err_sys(err, -errno, "cannot filter by cgroup '%s'", path);
	return 0;
}

int filter_write(const struct filter *f, const struct filter_maps *maps, uint32_t *ret_mask,
	struct err *err)
{
	int code = f->pid_cnt || f->tid_cnt ? proc_check_numbers(err) : 0;

	for (size_t i = 0; !code && i < f->pid_cnt; i++)
		code = put(maps->pids, &f->pids[i], "process", err);
	for (size_t i = 0; !code && i < f->comm_cnt; i++)
		code = put_comm(maps->comms, f->comms[i], err);
	for (size_t i = 0; !code && i < f->cpu_cnt; i++)
		code = put(maps->cpus, &f->cpus[i], "CPU", err);
	for (size_t i = 0; !code && i < f->cgroup_cnt; i++)
		code = put_cgroup(maps->cgroups, i, f->cgroups[i], err);
	for (size_t i = 0; !code && i < f->uid_cnt; i++)
		code = put(maps->uids, &f->uids[i], "user", err);
	for (size_t i = 0; !code && i < f->tid_cnt; i++)
		code = put(maps->tids, &f->tids[i], "thread", err);
	if (code)
		return code;
	*ret_mask = (f->pid_cnt ? FSN_FILTER_PID : 0) | (f->comm_cnt ? FSN_FILTER_COMM : 0) |
		    (f->cpu_cnt ? FSN_FILTER_CPU : 0) |
		    (f->cgroup_cnt ? FSN_FILTER_CGROUP : 0) |
		    (f->uid_cnt ? FSN_FILTER_UID : 0) | (f->tid_cnt ? FSN_FILTER_TID : 0);
	return 0;
}

/* --- replacing ------------------------------------------------------------------------------ */

/* The present or new keys of a map. */
struct list {
	int fd;
	const char *what;
	size_t key_bytes, cnt;
	uint32_t flag, room;
	char *keys;
};

#define LISTS 3
struct lists {
	struct list of[LISTS]; /* processes, commands, users */
};

static void lists_done(struct lists *lists)
{
	for (int i = 0; i < LISTS; i++)
		free(lists->of[i].keys);
}

static char *list_key(const struct list *l, size_t i)
{
	return l->keys + i * l->key_bytes;
}

static bool list_has(const struct list *l, const void *key)
{
	return ANY_WHERE(l->cnt, i, !memcmp(list_key(l, i), key, l->key_bytes));
}

/* Reads the list in the map of @like. */
static int list_read(const struct list *like, struct list *ret_list, struct err *err)
{
	struct list l = *like;
	const void *from = NULL;

	l.cnt = 0;
	l.keys = xcalloc(l.room + 1, l.key_bytes);
	while (l.cnt < l.room && !bpf_map_get_next_key(l.fd, from, list_key(&l, l.cnt)))
		from = list_key(&l, l.cnt++);
	if (l.cnt < l.room && errno != ENOENT) {
		free(l.keys);
		return err_sys(err, -errno, "cannot read the filter by %s", l.what);
	}
	*ret_list = l;
	return 0;
}

/* Adds to the map that has @old the keys that are in @l only. */
static int list_add(const struct list *l, const struct list *old, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < l->cnt; i++)
		if (!list_has(old, list_key(l, i)))
			code = put(l->fd, list_key(l, i), l->what, err);
	return code;
}

/* Takes from it the keys that are in @old only. */
static int list_drop(const struct list *l, const struct list *old, struct err *err)
{
	for (size_t i = 0; i < old->cnt; i++)
		if (!list_has(l, list_key(old, i)) &&
			bpf_map_delete_elem(l->fd, list_key(old, i)) && errno != ENOENT)
			return err_sys(err, -errno, "cannot filter by %s", l->what);
	return 0;
}

/* Keeps common entries in the map throughout. Adds before it deletes, if all entries fit. */
static int list_change(const struct list *l, const struct list *old, struct err *err)
{
	size_t added = 0;
	int code;

	for (size_t i = 0; i < l->cnt; i++)
		added += !list_has(old, list_key(l, i));
	if (old->cnt + added <= l->room) {
		code = list_add(l, old, err);
		return code ? code : list_drop(l, old, err);
	}
	code = list_drop(l, old, err);
	return code ? code : list_add(l, old, err);
}

/* Writes @l to the map; restores @old after an error. */
static int list_write(const struct list *l, const struct list *old, struct err *err)
{
	int code = list_change(l, old, err);
	struct list now;

	if (code && !list_read(l, &now, NULL)) {
		list_change(old, &now, NULL);
		free(now.keys);
	}
	return code;
}

/* Fills *@l, which has room for as many, with the @cnt @keys, each once. */
static int list_fill(struct list *l, const void *keys, size_t cnt, struct err *err)
{
	l->keys = xcalloc(cnt + 1, l->key_bytes);
	for (size_t i = 0; i < cnt; i++) {
		const void *key = (const char *)keys + i * l->key_bytes;

		if (!list_has(l, key))
			memcpy(list_key(l, l->cnt++), key, l->key_bytes);
	}
	return l->cnt > l->room ? err_set(err, -E2BIG, "too many filters by %s", l->what) : 0;
}

static int lists_of(const struct filter *f, struct lists *lists, struct err *err)
{
	_cleanup_free_ struct fsn_comm *comms = xcalloc(f->comm_cnt + 1, sizeof(*comms));
	int code;

	*lists = (struct lists) { {
		{ .what = "process", .flag = FSN_FILTER_PID, .room = FSN_PIDS_MAX,
			.key_bytes = sizeof(*f->pids) },
		{ .what = "command", .flag = FSN_FILTER_COMM, .room = FSN_COMMS_MAX,
			.key_bytes = sizeof(*comms) },
		{ .what = "user", .flag = FSN_FILTER_UID, .room = FSN_UIDS_MAX,
			.key_bytes = sizeof(*f->uids) } } };
	code = list_fill(&lists->of[0], f->pids, f->pid_cnt, err);
	for (size_t i = 0; !code && i < f->comm_cnt; i++)
		code = comm_key(f->comms[i], &comms[i], err);
	if (!code)
		code = list_fill(&lists->of[1], comms, f->comm_cnt, err);
	return code ? code : list_fill(&lists->of[2], f->uids, f->uid_cnt, err);
}

/*
 * Checks, before anything is changed, that the lists of processes, commands and users can be
 * written. Returns -EINVAL and -E2BIG like filter_write().
 */
static int filter_check(const struct filter *f, struct err *err)
{
	__cleanup(lists_done) struct lists lists = {};
	int code = f->pid_cnt ? proc_check_numbers(err) : 0;

	return code ? code : lists_of(f, &lists, err);
}

/* Fills new and changed lists before switching them on; clears others after switching them off. */
static int lists_replace(const struct list *lists, const struct list *old, uint32_t change,
	uint32_t mask, uint32_t *on, struct err *err)
{
	int code = 0, i;

	for (i = 0; !code && i < LISTS; i++) {
		if (!(change & lists[i].flag) || !lists[i].cnt)
			continue;
		mask |= lists[i].flag;
		code = list_write(&lists[i], &old[i], err);
	}
	/* list_write() has restored the failed list; restore the ones before it. */
	for (i -= 2; code && i >= 0; i--)
		if (mask & lists[i].flag)
			list_write(&old[i], &lists[i], NULL);
	if (code)
		return code;
	__atomic_store_n(on, (*on & ~change) | mask, __ATOMIC_SEQ_CST);
	for (i = 0; i < LISTS; i++) /* leftovers are harmless, because the filter is off */
		if (change & lists[i].flag && !lists[i].cnt)
			list_drop(&lists[i], &old[i], NULL);
	return 0;
}

/*
 * Replaces the lists of @change, FSN_FILTER_PID, FSN_FILTER_COMM and FSN_FILTER_UID, while BPF
 * programs use them. Updates the switches *@on; an empty list switches its filter off. Calls that
 * pass both the old and the new lists pass throughout. Other switches of @change are set as in
 * @set at the same moment.
 *
 * After an error, the old lists are restored as far as the kernel allows. The caller excludes other
 * writers of these maps.
 */
static int filter_replace(const struct filter *f, const struct filter_maps *maps, uint32_t change,
	uint32_t set, uint32_t *on, struct err *err)
{
	__cleanup(lists_done) struct lists new = {}, old = {};
	int code = lists_of(f, &new, err);

	new.of[0].fd = maps->pids;
	new.of[1].fd = maps->comms;
	new.of[2].fd = maps->uids;
	for (int i = 0; !code && i < LISTS; i++)
		code = list_read(&new.of[i], &old.of[i], err);
	return code ? code : lists_replace(new.of, old.of, change, set & change, on, err);
}

uint32_t filter_lost_children(int dir_fd)
{
	_cleanup_close_ int fd = bpffs_get(dir_fd, map_pin_name(MAPID_PIDS), 0);
	uint32_t none = FSN_PID_NONE, lost = 0, cnt;

	if (fd < 0 || map_check(fd, MAPID_PIDS, 0, &cnt) || bpf_map_lookup_elem(fd, &none, &lost))
		return 0;
	return lost;
}

/* --- changing a running group: a call that counts before and after is never missed ---------- */

/* State of a change of the condition. */
struct rewrite {
	const struct group *g;
	const struct condition *c;
	struct fsn_cond *conds;
	struct fsn_said before;
	bool said; /* the new condition has been written */
};

static void rewrite_done(struct rewrite *r)
{
	free(r->conds);
}

/* Like condition_bind(), for all functions of the group. */
static int bind_condition(struct rewrite *r, size_t *ret_never, struct err *err)
{
	const struct group *g = r->g;
	uint32_t cnt = g->meta.fn_cnt;
	_cleanup_free_ struct condition_func *funcs = xcalloc(cnt + 1, sizeof(*funcs));
	_cleanup_free_ struct fsn_conf *confs = xcalloc(cnt + 1, sizeof(*confs));
	_cleanup_types_ struct types *types = NULL;
	int code = 0;

	for (uint32_t i = 0; !code && i < cnt; i++)
		code = target_kind_check_condition(kind_of(g, i), err);
	if (!code)
		code = types_read(g, &types, err);
	if (code)
		return code;
	code = map_read(group_fd(g, MAPID_CONFS), 0, cnt, sizeof(*confs), confs);
	if (code)
		return err_sys(err, code, "cannot read group '%s'", g->name);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct func_types *f = types_of(types, i);

		funcs[i] = (struct condition_func) {
			.args = f->args,
			.arg_cnt = f->arg_cnt,
			.has_args = f->has_args,
			.regs = confs[i].regs,
			.codes = f->arg_codes,
			.name = group_func_name(g, i),
			.types_why = group_func(g, i).types_why,
		};
	}
	r->conds = xcalloc(cnt + 1, sizeof(*r->conds));
	return condition_bind(r->c, funcs, cnt, r->conds, ret_never, err);
}

int group_check_change(const struct group *g, const struct group_change *change,
	size_t *ret_never, struct err *err)
{
	__cleanup(rewrite_done) struct rewrite r = { .g = g, .c = change->condition };
	size_t never = 0;
	int code = 0;

	if (change->set_pids && g->meta.options & FSN_OPT_LINK_PID) {
		err_set(err, -EBUSY, "group '%s' has probes in the processes of --pid only",
			g->name);
		return err_hint(err, "attach the group again with --replace and the other --pid");
	}
	if (r.c && r.c->term_cnt)
		code = bind_condition(&r, &never, err);
	if (!code && ret_never)
		*ret_never = never;
	return code ? code : filter_check(change->filter, err);
}

static int write_said(const struct group *g, const struct fsn_said *said, struct err *err)
{
	uint32_t zero = 0;

	if (!bpf_map_update_elem(group_fd(g, MAPID_SAID), &zero, said, 0))
		return 0;
	return err_sys(err, -errno, "cannot change group '%s'", g->name);
}

/*
 * Writes the condition to the half of the map that the BPF programs do not read now, and its text for
 * readers. *@ret_set are the flags that make the BPF programs use it; 0: no condition.
 */
static int write_condition(struct rewrite *r, uint32_t on, uint32_t *ret_set, struct err *err)
{
	const struct group *g = r->g;
	bool second = on & FSN_FILTER_IF && !(on & FSN_FILTER_IF2);
	uint32_t zero = 0, cnt = g->meta.fn_cnt;
	struct fsn_said said;
	size_t never;
	int code;

	*ret_set = 0;
	if (r->c->term_cnt) {
		code = bind_condition(r, &never, err);
		if (code)
			return code;
		code = map_write(group_fd(g, MAPID_CONDS), second ? cnt : 0, cnt,
			sizeof(*r->conds), r->conds);
		if (code)
			return err_sys(err, code, "cannot change group '%s'", g->name);
		*ret_set = FSN_FILTER_IF | (second ? FSN_FILTER_IF2 : 0);
	}
	if (bpf_map_lookup_elem(group_fd(g, MAPID_SAID), &zero, &r->before))
		return err_sys(err, -errno, "cannot change group '%s'", g->name);
	said = r->before;
	memcpy(said.condition, r->c->text, sizeof(said.condition));
	code = write_said(g, &said, err);
	r->said = !code;
	return code;
}

int group_change(const struct group *g, const struct group_change *change, struct err *err)
{
	const struct filter_maps maps = { .pids = group_fd(g, MAPID_PIDS),
		.comms = group_fd(g, MAPID_COMMS),
		.uids = group_fd(g, MAPID_UIDS) };
	uint32_t which = (change->set_pids ? FSN_FILTER_PID : 0) |
		(change->set_comms ? FSN_FILTER_COMM : 0) |
		(change->set_uids ? FSN_FILTER_UID : 0) |
		(change->condition ? FSN_FILTER_IF | FSN_FILTER_IF2 : 0);
	__cleanup(rewrite_done) struct rewrite r = { .g = g, .c = change->condition };
	_cleanup_mapping_ struct map_mapping map = {};
	uint32_t set = 0;
	struct fsn_ctl *ctl;
	int code = group_check_change(g, change, NULL, err);

	if (code)
		return code;
	code = map_mmap(group_fd(g, MAPID_CTL), sizeof(*ctl), &map);
	if (code)
		return err_sys(err, code, "cannot change group '%s'", g->name);
	ctl = map.addr;
	if (change->set_pids)
		__atomic_store_n(&ctl->only_pid, 0, __ATOMIC_SEQ_CST);
	if (r.c)
		code = write_condition(&r, ctl->on, &set, err);
	if (!code)
		code = filter_replace(change->filter, &maps, which, set, &ctl->on, err);
	if (code && r.said)
		write_said(g, &r.before, NULL);
	/* Wait for programs that use the old half, because the next change overwrites it. */
	if (!code && r.c)
		group_wait_for_programs(g);
	return code;
}
