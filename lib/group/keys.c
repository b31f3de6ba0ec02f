// SPDX-License-Identifier: BSD-2-Clause
// Keys that group calls.
#include "base/util.h"
#include "group/keys.h"
#include "group/records.h"
#include "proc/proc.h"
#include "shared/gpu.h"

/* --- keys and sums: from words of a command line to where programs find them --------------- */

_Static_assert(STACKS_USUAL == FSN_STACKS, "as the maps have it");
_Static_assert(KEYS_USUAL == FSN_ROWS && KEYS_MAX == FSN_ROWS_MAX, "as the maps have it");

/* --- reading -------------------------------------------------------------------------------- */

/* Keywords; with the prefix "arg:" they name an argument. */
static const struct {
	const char *word;
	enum fsn_by by; /* FSN_BY_NONE: reserved, not a key here */
} words[] = {
	{ "caller", FSN_BY_CALLER },
	{ "thread", FSN_BY_THREAD },
	{ "comm", FSN_BY_COMM },
	{ "cgroup", FSN_BY_CGROUP },
	{ "result", FSN_BY_RESULT },
	{ "stack", FSN_BY_NONE },
	{ "kernel", FSN_BY_KERNEL },
	{ FSN_GPU_RANGE, FSN_BY_KERNEL },
	{ "lock", FSN_BY_LOCK },
	{ "waker_stack", FSN_BY_WAKER_STACK },
	{ "communicator", FSN_BY_COMMUNICATOR },
	{ "goroutine", FSN_BY_MEMBER }, /* of struct runtime.g */
	{ "function", FSN_BY_NONE },
	{ "process", FSN_BY_NONE },
	{ "library", FSN_BY_NONE },
};

static int read_name(const char *option, const char *text, size_t len, struct key_name *ret,
	struct err *err)
{
	bool is_class = !strncmp(text, "log2:", 5), is_arg = is_class || !strncmp(text, "arg:", 4);
	size_t before = is_class ? 5 : is_arg ? 4 : 0;

	text += before;
	len -= before < len ? before : len;
	if (!len)
		return err_set(err, -ERR_USAGE, "%s: a name is missing", option);
	if (len >= sizeof(ret->name))
		return err_set(err, -ERR_USAGE, "%s '%.*s' is longer than %zu bytes", option,
			(int)len, text, sizeof(ret->name) - 1);
	memcpy(ret->name, text, len);
	ret->name[len] = '\0';
	ret->by = is_class ? FSN_BY_CLASS : FSN_BY_NUMBER;
	for (size_t i = 0; !is_arg && i < ARRAY_SIZE(words); i++) {
		if (strcmp(words[i].word, ret->name))
			continue;
		if (words[i].by == FSN_BY_NONE) {
			err_set(err, -ERR_USAGE, "%s '%s' is not known", option, ret->name);
			return strcmp(ret->name, "stack")
				? err_hint(err, "'stats --by %s' needs no key; use 'arg:%s' for an "
						"argument of that name", ret->name, ret->name)
				: err_hint(err, "use --by stack, or 'arg:stack' for an argument "
						"of that name");
		}
		ret->by = words[i].by;
	}
	return 0;
}

static int check_new(const char *option, const struct key_name *names, size_t cnt,
	const struct key_name *name, struct err *err)
{
	for (size_t i = 0; i < cnt; i++)
		if (!strcmp(names[i].name, name->name))
			return err_set(
				err, -ERR_USAGE, "%s '%s' is there twice", option, name->name);
	return 0;
}

int keys_add(struct keys *k, const char *text, struct err *err)
{
	for (;;) {
		size_t len = strcspn(text, ",");
		struct key_name name;
		int code = read_name("--by", text, len, &name, err);

		if (!code)
			code = check_new("--by", k->key, k->key_cnt, &name, err);
		if (code)
			return code;
		if (k->key_cnt == FSN_KEYS)
			return err_set(err, -ERR_USAGE, "--by: at most %d of them", FSN_KEYS);
		k->key[k->key_cnt++] = name;
		if (keys_at(k, FSN_BY_CALLER) && keys_at(k, FSN_BY_LOCK))
			return err_set(err, -ERR_USAGE,
				"--by caller cannot be combined with '--by lock'");
		if (!text[len])
			return 0;
		text += len + 1;
	}
}

int keys_add_stack(struct keys *k, struct err *err)
{
	static const struct key_name stack = { "stack", FSN_BY_STACK };
	int code = check_new("--by", k->key, k->key_cnt, &stack, err);

	if (code)
		return code;
	if (k->key_cnt == FSN_KEYS)
		return err_set(err, -ERR_USAGE, "--by: at most %d keys next to stack", FSN_KEYS - 1);
	k->key[k->key_cnt++] = stack;
	return 0;
}

int keys_add_sum(struct keys *k, const char *text, struct err *err)
{
	struct key_name name;
	int code = read_name("--sum", text, strlen(text), &name, err);

	if (!code)
		code = check_new("--sum", k->sum, k->sum_cnt, &name, err);
	if (code)
		return code;
	if (name.by != FSN_BY_NUMBER && name.by != FSN_BY_RESULT)
		return err_set(err, -ERR_USAGE, "--sum '%s' is not an argument", name.name);
	if (k->sum_cnt == FSN_SUMS)
		return err_set(err, -ERR_USAGE, "--sum: at most %d of them", FSN_SUMS);
	k->sum[k->sum_cnt++] = name;
	return 0;
}

/* --- binding -------------------------------------------------------------------------------- */

/* Returns why a declared argument cannot be summed, or NULL. */
static const char *no_number(const struct preset_value *v)
{
	switch (v->kind) {
	case TYPE_POINTER:
		return "is a pointer, and no amount of anything";
	case TYPE_STRING:
		return "is text, and no number";
	default:
		return NULL;
	}
}

static void bind_number(const struct preset_value *v, struct fsn_part *ret)
{
	ret->width = 64;
	if (v && (v->kind == TYPE_INT || v->kind == TYPE_BOOL))
		ret->width = (unsigned char)(v->size < 8 ? v->size * 8 : 64);
	ret->is_signed = v && v->kind == TYPE_INT && v->is_signed;
}

static int bind_result(const struct condition_func *f, struct fsn_part *ret, const char **ret_why)
{
	if (!f->ends)
		return -ENOENT;
	if (f->ret)
		switch (f->ret->kind) {
		case TYPE_VOID:
		case TYPE_FLOAT:
		case TYPE_COMPLEX:
		case TYPE_STRUCT:
		case TYPE_CLASS:
			*ret_why = "of no function is a number";
			return -EINVAL;
		default:
			break;
		}
	ret->what = FSN_BY_RESULT;
	bind_number(f->ret, ret);
	return 0;
}

/* A sum needs to know which results are negative. That of bool counts how many are true. */
static int bind_amount(const struct condition_func *f, struct fsn_part *ret, const char **ret_why)
{
	*ret_why = "of no function is declared as a number";
	return f->ret && (f->ret->kind == TYPE_INT || f->ret->kind == TYPE_BOOL)
		? bind_result(f, ret, ret_why) : -EINVAL;
}

bool keys_communicator(const struct condition_func *f, size_t *ret_nth)
{
	for (size_t i = 0; f->regs != FSN_REGS_UNKNOWN && i < f->arg_cnt; i++) {
		const struct preset_type *type = f->args[i].value.type;

		*ret_nth = i;
		if (type && type->kind == TYPE_POINTER && !strcmp(type->name, "ncclComm_t"))
			return true;
	}
	return false;
}

/* Binds the communicator, kernel or lock that a function has as an argument, by the preset or types. */
static int bind_object(const struct condition_func *f, const struct key_name *name,
	struct fsn_part *ret, const char **ret_why)
{
	enum fsn_by what = name->by;
	bool has_regs = f->regs != FSN_REGS_UNKNOWN, is_range = !strcmp(name->name, FSN_GPU_RANGE);
	size_t nth = 0; /* from 1 on; 0: it has none */
	int code;

	if (what == FSN_BY_COMMUNICATOR) {
		ret->at = f->communicator_at;
		nth = keys_communicator(f, &nth) ? nth + 1 : 0;
	} else if (has_regs && what == FSN_BY_LOCK) {
		nth = f->lock;
	} else if (is_range && f->in_thread) {
		*ret = (struct fsn_part) { .what = what, .width = 64, .at = 1 };
		return 0;
	} else if (has_regs && !f->named && f->kernel &&
		is_range == !strcmp(f->args[f->kernel - 1].name, FSN_GPU_RANGE)) {
		nth = f->kernel;
	}
	code = nth ? condition_arg_at(f, nth - 1, &ret->where, ret_why) : -ENOENT;
	if (code)
		return code;
	ret->what = what;
	ret->width = 64;
	ret->arg = what == FSN_BY_LOCK && !f->has_args ? 0 : (unsigned int)nth;
	return 0;
}

/* Binds the thread that ended a wait, which is known like an argument of waits (target/activity.c). */
static int bind_waker(const struct condition_func *f, const char *name, struct fsn_part *ret)
{
	if (!f->waits || !f->lock || !f->ends)
		return -ENOENT;
	if (!strcmp(name, "waker"))
		ret->what = FSN_BY_WAKER;
	else if (!strcmp(name, "waker_tid"))
		ret->what = FSN_BY_WAKER_TID;
	ret->is_signed = true;
	return ret->what ? 0 : -ENOENT;
}

/* Binds a function that stores a kernel handle for its caller, but does not launch the kernel. */
static void bind_handle(const struct condition_func *f, struct fsn_keyed *ret)
{
	const char *why;

	if (!f->kernel || !f->named || f->regs == FSN_REGS_UNKNOWN || !f->ends ||
		condition_arg_at(f, f->kernel - 1, &ret->handle_at, &why) ||
		condition_arg_at(f, f->named - 1, &ret->name_at, &why))
		return;
	ret->named = f->args[f->named - 1].value.kind == TYPE_STRING ? FSN_NAMED_TEXT
								     : FSN_NAMED_WORD;
}

bool keys_have_range(const struct keys *k)
{
	return ANY_WHERE(k->key_cnt, i, k->key[i].by == FSN_BY_KERNEL &&
		!strcmp(k->key[i].name, FSN_GPU_RANGE));
}

bool keys_member(const struct condition_func *f, const struct key_name *name, size_t *ret_nth,
	const char **ret_path)
{
	const char *arrow = strstr(name->name, "->"), *why;
	char arg[KEY_NAME_LEN];
	unsigned char where;

	if (!arrow)
		return false;
	snprintf(arg, sizeof(arg), "%.*s", (int)(arrow - name->name), name->name);
	*ret_path = arrow + 2;
	return f->has_args && !condition_arg(f, arg, &where, ret_nth, &why);
}

static int bind_member(const struct condition_func *f, const struct key_name *name, size_t i,
	struct fsn_part *ret, const char **ret_why)
{
	bool is_go = name->by == FSN_BY_MEMBER;
	const char *path;
	size_t nth;

	if (is_go ? f->regs != FSN_REGS_GO : !keys_member(f, name, &nth, &path))
		return -ENOENT;
	*ret_why = f->member[i].why;
	if (*ret_why || (!is_go && condition_arg_at(f, nth, &ret->where, ret_why)))
		return -EINVAL;
	if (is_go)
		ret->where = FSN_GO_REG + 1 + FSN_GO_G;
	else
		ret->arg = (unsigned int)nth + 1;
	ret->what = FSN_BY_MEMBER;
	ret->width = (unsigned char)(f->member[i].m.bytes * 8);
	ret->is_signed = f->member[i].m.is_signed;
	ret->at = f->member[i].m.at;
	ret->type = f->member[i].m.is_address;
	return 0;
}

/*
 * Binds a sum of bytes: the element count is the argument before the one that is the data type. An
 * integer of a declared type is something else, such as an offset in a file.
 */
static int bind_bytes(const struct condition_func *f, struct fsn_part *ret, const char **ret_why)
{
	unsigned char type;

	for (size_t i = 1; f->regs != FSN_REGS_UNKNOWN && i < f->arg_cnt; i++) {
		const struct preset_value *v = &f->args[i].value;
		const struct preset_value *count = &f->args[i - 1].value;

		if (!v->type || !(v->type->sizes || v->type->size_at) || count->kind != TYPE_INT ||
			count->type)
			continue;
		if (condition_arg_at(f, i, &type, ret_why) ||
			condition_arg_at(f, i - 1, &ret->where, ret_why))
			return -EINVAL;
		ret->what = FSN_BY_BYTES;
		ret->type = type;
		ret->sizes = v->type->sizes;
		ret->at = v->type->size_at;
		ret->arg = (unsigned int)i;
		bind_number(count, ret);
		return 0;
	}
	return -ENOENT;
}

/* Binds @name if it is the declared product of @f. Returns 0, -EINVAL, or -ENOENT. */
static int bind_product(const struct condition_func *f, const char *name, struct fsn_part *ret,
	const char **ret_why)
{
	const struct preset_product *p = f->product;

	if (!p || f->regs == FSN_REGS_UNKNOWN || strcmp(p->name, name))
		return -ENOENT;
	if (p->is_result)
		return bind_amount(f, ret, ret_why);
	if (p->is_pointed && !f->ends)
		return -ENOENT;
	if (!p->behind && !p->is_pointed && !p->arg[1]) {
		if (condition_arg_at(f, p->arg[0] - 1, &ret->where, ret_why))
			return -EINVAL;
		ret->what = FSN_BY_NUMBER;
		ret->arg = p->arg[0];
		bind_number(&f->args[p->arg[0] - 1].value, ret);
		return 0;
	}
	for (size_t i = 0; i < PRESET_PRODUCT && p->arg[i]; i++) {
		if (condition_arg_at(f, p->arg[i] - 1, &ret->where, ret_why))
			return -EINVAL;
		ret->sizes |= (p->behind ? p->at[i] + 1ULL : ret->where) << 16 * i;
	}
	for (size_t i = 0; i < p->absent_cnt; i++)
		ret->type |= (p->absent[i] + 1U) << 16 * i;
	ret->what = p->is_pointed ? FSN_BY_POINTED : FSN_BY_PRODUCT;
	ret->width = 64;
	ret->at = p->behind;
	return 0;
}

/* Finds argument @name; that of paths has different names in system calls. */
static int find_arg(const struct condition_func *f, const char *name, unsigned char *ret_where,
	size_t *ret_nth, const char **ret_why)
{
	static const char *const paths[] = { "filename", "pathname", "oldname" };
	int code = condition_arg(f, name, ret_where, ret_nth, ret_why);

	for (size_t i = 0; code && !strcmp(name, "path") && i < ARRAY_SIZE(paths); i++)
		code = condition_arg(f, paths[i], ret_where, ret_nth, ret_why);
	return code;
}

/*
 * Binds @name, part @i of the keys or, with @is_sum, of the sums, to function @f. Returns 0, -ENOENT if
 * the function has no such argument, or -EINVAL with the reason in *@ret_why if it cannot be used.
 */
static int bind_part(const struct condition_func *f, const struct key_name *name, size_t i,
	bool is_sum, struct fsn_part *ret, const char **ret_why)
{
	const struct preset_value *v;
	size_t nth;
	int code;

	memset(ret, 0, sizeof(*ret));
	if (name->by == FSN_BY_RESULT)
		return is_sum ? bind_amount(f, ret, ret_why) : bind_result(f, ret, ret_why);
	if (name->by == FSN_BY_COMMUNICATOR || name->by == FSN_BY_KERNEL || name->by == FSN_BY_LOCK)
		return bind_object(f, name, ret, ret_why);
	if (name->by == FSN_BY_CALLER && !f->called)
		return -ENOENT;
	if (name->by == FSN_BY_WAKER_STACK && (!f->waits || !f->ends))
		return -ENOENT;
	if (name->by == FSN_BY_MEMBER)
		return bind_member(f, name, i, ret, ret_why);
	if (strstr(name->name, "->")) {
		if (!is_sum)
			return bind_member(f, name, i, ret, ret_why);
		*ret_why = "is a member, and those are keys only";
		return -EINVAL;
	}
	if (is_sum && !strcmp(name->name, "bytes") && !bind_bytes(f, ret, ret_why))
		return 0;
	if (!is_sum && name->by == FSN_BY_NUMBER && !bind_waker(f, name->name, ret))
		return 0;
	code = is_sum ? bind_product(f, name->name, ret, ret_why) : -ENOENT;
	if (code != -ENOENT)
		return code;
	if (name->by != FSN_BY_NUMBER && name->by != FSN_BY_CLASS) {
		ret->what = (unsigned char)name->by;
		ret->at = name->by == FSN_BY_STACK && f->inside;
		return 0;
	}
	code = find_arg(f, name->name, &ret->where, &nth, ret_why);
	if (code)
		return code;
	bind_number(f->has_args ? &f->args[nth].value : NULL, ret);
	if (f->has_args) {
		v = &f->args[nth].value;
		*ret_why = is_sum || name->by == FSN_BY_CLASS ? no_number(v) : NULL;
		if (*ret_why)
			return -EINVAL;
		ret->arg = (unsigned int)nth + 1;
		if (v->kind == TYPE_STRING)
			ret->what = FSN_BY_TEXT;
	}
	if (name->by == FSN_BY_CLASS)
		ret->is_signed = false;
	if (!ret->what)
		ret->what = (unsigned char)name->by;
	return 0;
}

/* For a key or sum: whether a function supports it, and why the first one with it does not. */
struct found {
	bool some;
	const char *why;
};

static int bind_parts(const struct condition_func *f, const struct key_name *names, size_t cnt,
	bool is_sum, struct found *found, struct fsn_part *ret)
{
	int missing = 0;

	for (size_t i = 0; i < cnt; i++) {
		const char *why = NULL;
		int code = bind_part(f, &names[i], i, is_sum, &ret[i], &why);

		if (code)
			memset(&ret[i], 0, sizeof(ret[i]));
		if (code == -EINVAL && !found[i].why)
			found[i].why = why;
		found[i].some |= !code;
		missing += code != 0;
	}
	return missing;
}

/* "use process, comm, thread, cgroup or stack, or an argument of read: fd, buf, count" */
static int hint_keys(const struct condition_func *f, struct err *err)
{
	char text[ERR_HINT_LEN];
	size_t len = snprintf(text, sizeof(text), "use process, comm, thread, cgroup%s or stack",
		f->called ? ", caller" : "");

	for (size_t i = 0; i < f->arg_cnt && f->args[i].name[0] && len < sizeof(text); i++) {
		if (!i)
			len += snprintf(text + len, sizeof(text) - len, ", or an argument of %s:", f->name);
		if (len < sizeof(text))
			len += snprintf(text + len, sizeof(text) - len, "%s %s", i ? "," : "",
				f->args[i].name);
	}
	return err_hint(err, "%s", text);
}

static int check_found(const char *option, const struct key_name *names, size_t name_cnt,
	const struct found *found, const struct condition_func *funcs, size_t cnt,
	struct err *err)
{
	for (size_t i = 0; i < name_cnt; i++) {
		if (found[i].some)
			continue;
		if (found[i].why)
			return err_set(err, -ERR_USAGE, "%s '%s' %s", option, names[i].name,
				found[i].why);
		if (names[i].by == FSN_BY_RESULT)
			return err_set(err, -ERR_USAGE, "%s '%s': no function's return is traced",
				option, names[i].name);
		if (names[i].by == FSN_BY_COMMUNICATOR)
			return err_set(err, -ERR_USAGE,
				"%s '%s': no function has an argument of type ncclComm_t", option,
				names[i].name);
		if (names[i].by == FSN_BY_KERNEL)
			return err_set(err, -ERR_USAGE,
				"%s '%s': no function is known to %s", option, names[i].name,
				strcmp(names[i].name, FSN_GPU_RANGE) ? "launch kernels" : "begin one");
		if (names[i].by == FSN_BY_MEMBER) {
			err_set(err, -ERR_USAGE, "%s '%s': no function passes arguments in Go's registers",
				option, names[i].name);
			return err_hint(err, "use 'arg:goroutine' for an argument of that name");
		}
		if (names[i].by == FSN_BY_LOCK) {
			err_set(err, -ERR_USAGE, "%s '%s': no function is known to wait for locks",
				option, names[i].name);
			return err_hint(err, "use preset locks, or 'arg:lock' for an argument of that name");
		}
		if (names[i].by == FSN_BY_WAKER_STACK || !strcmp(names[i].name, "waker") ||
			!strcmp(names[i].name, "waker_tid")) {
			err_set(err, -ERR_USAGE, "%s '%s': no function is known to wait for other threads",
				option, names[i].name);
			return err_hint(err, "use preset locks or off-cpu");
		}
		if (names[i].by == FSN_BY_CALLER) {
			err_set(err, -ERR_USAGE,
				"%s '%s': only calls of functions of programs and libraries have a known caller",
				option, names[i].name);
			return err_hint(err, "use --by stack");
		}
		err_set(err, -ERR_USAGE, "%s '%s': no function has such an argument", option,
			names[i].name);
		condition_hint(funcs, cnt, names[i].name, err);
		if (!err->hint[0] && cnt && !strcmp(option, "--by"))
			hint_keys(&funcs[0], err);
		return -ERR_USAGE;
	}
	return 0;
}

int keys_bind(const struct keys *k, const struct condition_func *funcs, size_t cnt,
	struct fsn_keyed *ret_keyed, struct keys_left *ret_left, struct err *err)
{
	struct found keys[FSN_KEYS] = {}, sums[FSN_SUMS] = {};
	size_t asked = k->key_cnt + k->sum_cnt;
	int code;

	*ret_left = (struct keys_left) {};
	for (size_t i = 0; i < cnt; i++) {
		struct fsn_keyed *keyed = &ret_keyed[i];
		size_t missing;

		memset(keyed, 0, sizeof(*keyed));
		missing = bind_parts(&funcs[i], k->key, k->key_cnt, false, keys, keyed->key);
		missing += bind_parts(&funcs[i], k->sum, k->sum_cnt, true, sums, keyed->sum);
		keyed->on = missing < asked;
		if (keys_at(k, FSN_BY_KERNEL))
			bind_handle(&funcs[i], keyed);
		for (size_t n = 0; n < FSN_KEYS; n++) {
			keyed->late |= keyed->key[n].what == FSN_BY_RESULT ||
				keyed->key[n].what == FSN_BY_WAKER ||
				keyed->key[n].what == FSN_BY_WAKER_TID ||
				(keyed->key[n].what == FSN_BY_WAKER_STACK && funcs[i].lock) ||
				(keyed->key[n].what == FSN_BY_STACK && k->stack_late);
			if (keyed->key[n].what == FSN_BY_KERNEL && !keyed->key[n].at)
				keyed->launches = (unsigned char)(n + 1);
		}
		for (size_t n = 0; n < FSN_SUMS; n++)
			keyed->late |= keyed->sum[n].what == FSN_BY_RESULT ||
				keyed->sum[n].what == FSN_BY_POINTED;
		if (missing == asked && !ret_left->none++)
			ret_left->first = i;
		ret_left->some += missing && missing < asked;
	}
	code = check_found("--by", k->key, k->key_cnt, keys, funcs, cnt, err);
	return code ? code
		    : check_found("--sum", k->sum, k->sum_cnt, sums, funcs, cnt, err);
}

void keys_summarize(const struct fsn_keyed *keyed, size_t cnt, struct keys_summary *ret)
{
	const uint32_t wide = 1U << FSN_BY_TEXT | 1U << FSN_BY_COMM | 1U << FSN_BY_COMMUNICATOR |
		1U << FSN_BY_MEMBER | 1U << FSN_BY_WAKER | 1U << FSN_BY_CALLER | 1U << FSN_BY_LOCK;
	const uint32_t wakers = 1U << FSN_BY_WAKER | 1U << FSN_BY_WAKER_TID |
		1U << FSN_BY_WAKER_STACK;

	*ret = (struct keys_summary) {};
	for (size_t i = 0; i < cnt; i++) {
		ret->asked |= keyed[i].named != FSN_NAMED_NOT;
		ret->late |= keyed[i].late;
		for (size_t n = 0; n < FSN_KEYS; n++) {
			uint32_t kind = 1U << keyed[i].key[n].what;

			ret->kinds[n] |= kind;
			ret->wide |= (kind & wide) != 0;
			ret->wakers |= keyed[i].late && kind & wakers;
		}
	}
}

/* --- reading the keys of a group from its maps --------------------------------------------- */

static struct func_part part_of(const struct fsn_part *p)
{
	return (struct func_part) { p->what, p->is_signed, p->what == FSN_BY_MEMBER && p->type,
		p->arg, p->sizes };
}

static int keys_make(const struct group *g, const struct fsn_keyed *keyed, struct group_keys *k)
{
	k->funcs = xcalloc(g->meta.fn_cnt, sizeof(*k->funcs));
	for (uint32_t fn = 0; fn < g->meta.fn_cnt; fn++) {
		struct func_keys *f = &k->funcs[fn];

		f->on = keyed[fn].on;
		for (size_t i = 0; i < FSN_KEYS; i++)
			f->key[i] = part_of(&keyed[fn].key[i]);
		for (size_t i = 0; i < FSN_SUMS; i++)
			f->sum[i] = part_of(&keyed[fn].sum[i]);
		for (size_t i = 0; i < FSN_KEYS; i++)
			if (f->key[i].by >= FSN_BY_CNT || f->key[i].arg > g->funcs[fn].arg_cnt)
				return -EPROTO;
	}
	return 0;
}

/* Names of another user's group are untrusted. Documents contain them unescaped. */
static bool is_plain(const char *name)
{
	return *name && !name[strspn(name, "abcdefghijklmnopqrstuvwxyz"
					   "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789->.[]")];
}

int group_keys_read(const struct group *g, struct group_keys *ret_keys, struct err *err)
{
	_cleanup_free_ struct fsn_keyed *keyed = NULL;
	int code = 0;

	*ret_keys = (struct group_keys) { .key_cnt = g->meta.key_cnt,
		.sum_cnt = g->meta.sum_cnt };
	if (!g->meta.row_cnt)
		return 0;
	if (g->meta.key_cnt > FSN_KEYS || g->meta.sum_cnt > FSN_SUMS)
		code = -EPROTO;
	for (size_t i = 0; !code && i < g->meta.key_cnt; i++)
		ret_keys->key[i] = group_text(g, g->meta.key[i]);
	for (size_t i = 0; !code && i < g->meta.sum_cnt; i++)
		ret_keys->sum[i] = group_text(g, g->meta.sum[i]);
	for (size_t i = 0; !code && i < g->meta.key_cnt; i++)
		code = is_plain(ret_keys->key[i]) ? 0 : -EPROTO;
	for (size_t i = 0; !code && i < g->meta.sum_cnt; i++)
		code = is_plain(ret_keys->sum[i]) ? 0 : -EPROTO;
	if (!code) {
		keyed = xcalloc(g->meta.fn_cnt, sizeof(*keyed));
		code = map_read_fixed(group_fd(g, MAPID_KEYED_BY), 0, g->meta.fn_cnt,
			sizeof(*keyed), keyed);
	}
	if (!code)
		code = keys_make(g, keyed, ret_keys);
	if (!code && g->meta.key_cgroup)
		ret_keys->cgroups = cgroups_new("/proc");
	return code ? err_sys(err, code, "cannot read keys of group '%s'", g->name) : 0;
}

void group_keys_done(struct group_keys *k)
{
	free(k->funcs);
	cgroups_free(k->cgroups);
}

int group_keys_find(const struct group_keys *k, const char *name)
{
	for (size_t i = 0; i < k->key_cnt; i++)
		if (!strcmp(k->key[i], name))
			return (int)i;
	return -1;
}

void group_key_spread(const struct group *g, const struct fsn_key *from, struct fsn_key *to)
{
	if (g->meta.key_wide)
		*to = *from;
	else
		for (size_t i = 0; i < FSN_KEYS && i < g->meta.key_cnt; i++)
			to->word[i * FSN_KEY_WIDE] = from->word[i];
}

bool func_sums_result(const struct func_keys *f)
{
	return ANY_WHERE(FSN_SUMS, i, f->sum[i].by == FSN_BY_RESULT ||
		f->sum[i].by == FSN_BY_POINTED);
}

bool func_sum_of(const struct func_part *sum, const struct func_types *types,
	const struct call *call, const struct fsn_more *more, uint64_t *ret_n)
{
	uint64_t type, size;

	if (sum->by == FSN_BY_NONE || sum->by == FSN_BY_PRODUCT || sum->by == FSN_BY_POINTED ||
		!call_arg_number(types, sum->arg, call, more, ret_n))
		return false;
	if (sum->by != FSN_BY_BYTES)
		return true;
	if (!sum->sizes) /* they were in memory */
		return false;
	if (!call_arg_number(types, sum->arg + 1, call, more, &type))
		return false;
	size = type < PRESET_SIZES ? sum->sizes >> 4 * type & 15 : 0;
	*ret_n = size ? *ret_n << (size - 1) : 0;
	return true;
}

/* --- rules of functions that allocate and free memory --------------------------------------- */

/* A structure by value: each of its words is a factor. */
static int bind_members(const struct preset_arg *arg, struct fsn_rule *ret)
{
	const struct preset_place *place = &arg->place;
	uint32_t cnt = arg->value.size / 8;

	if (ret->factor_cnt + cnt > FSN_FACTORS)
		return -E2BIG;
	for (uint32_t i = 0; i < cnt; i++) {
		struct fsn_factor *f = &ret->factor[ret->factor_cnt++];

		*f = (struct fsn_factor) { .width = 64 };
		if (place->where == PLACE_REG && place->index + (place->by_ref ? 0 : i) < FSN_ARGS) {
			f->where = (unsigned char)(1 + place->index + (place->by_ref ? 0 : i));
			f->how = place->by_ref ? FSN_FACTOR_BEFORE : FSN_FACTOR_VALUE;
			f->at = (unsigned char)(place->by_ref ? i : 0);
		} else if (place->where == PLACE_STACK && !place->by_ref &&
			place->index + i < FSN_STR_KERNEL) {
			f->where = (unsigned char)(FSN_STR_STACK + place->index + i);
		} else {
			return -EINVAL;
		}
	}
	return 0;
}

static int bind_factor(const struct condition_func *f, const struct preset_part *part,
	struct fsn_rule *ret, const char **ret_why)
{
	const struct preset_arg *arg = &f->args[part->arg - 1];
	struct fsn_factor *factor;
	int code;

	*ret_why = "has an argument that can't be seen at the entry";
	if (arg->value.kind == TYPE_STRUCT)
		return bind_members(arg, ret);
	if (ret->factor_cnt == FSN_FACTORS)
		return -E2BIG;
	factor = &ret->factor[ret->factor_cnt++];
	code = condition_arg_at(f, part->arg - 1, &factor->where, ret_why);
	factor->width = 64;
	if (part->is_pointed)
		factor->how = FSN_FACTOR_BEHIND;
	else if (arg->value.size < 8)
		factor->width = (unsigned char)(arg->value.size * 8);
	return code;
}

static int bind(const struct condition_func *f, struct fsn_rule *ret, const char **ret_why)
{
	const struct preset_memory *m = f->memory;
	int code = 0;

	*ret_why = "has arguments that code before its probe may have changed";
	if (f->regs == FSN_REGS_UNKNOWN)
		return -EINVAL;
	*ret_why = "has an end that is not seen";
	if (m->allocates && !f->ends)
		return -EINVAL;
	ret->allocates = m->allocates;
	if (m->pointer.arg)
		code = condition_arg_at(f, m->pointer.arg - 1, &ret->pointer, ret_why);
	for (size_t i = 0; !code && i < m->size_cnt; i++)
		code = bind_factor(f, &m->size[i], ret, ret_why);
	if (!code && m->frees)
		code = condition_arg_at(f, m->frees - 1, &ret->frees, ret_why);
	ret->waits = m->frees && f->ends && (m->allocates || f->judged);
	return code;
}

int rules_bind(const struct condition_func *funcs, size_t cnt, struct fsn_rule *ret_rules,
	struct rules_left *ret_left, struct err *err)
{
	*ret_left = (struct rules_left) {};
	for (size_t i = 0; i < cnt; i++) {
		const struct condition_func *f = &funcs[i];
		const char *why;

		ret_rules[i] = (struct fsn_rule) { .frees_all = f->memory && f->memory->frees_all };
		if (!f->memory || !(f->memory->allocates || f->memory->frees))
			continue;
		if (!bind(f, &ret_rules[i], &why)) {
			ret_left->allocate += ret_rules[i].allocates;
			continue;
		}
		ret_rules[i] = (struct fsn_rule) {};
		if (!ret_left->cant++) {
			ret_left->name = f->name;
			ret_left->why = why;
		}
	}
	if (ret_left->allocate)
		return 0;
	if (ret_left->cant)
		return err_set(err, -ERR_USAGE, "--with memory: '%s' %s", ret_left->name, ret_left->why);
	err_set(err, -ERR_USAGE, "--with memory: no function of the group is known to allocate memory");
	return err_hint(err,
		"use preset cuda, cuda-driver, nccl, malloc or tensors, or \"allocates\" in a configuration: funcsnoop-config(5)");
}
