// SPDX-License-Identifier: BSD-2-Clause
// Turns a draft into the records that later commands read.
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "attach/attach.h"
#include "base/util.h"
#include "code/cuda.h"
#include "internal.h"
#include "target/kind.h"

/* --- the hash of a group: equal if attaching again would give the same group ---------------- */

/* It covers the records that the group would have, and the options that the records do not show. */

static void mix(uint64_t *hash, const void *bytes, size_t size)
{
	*hash = hash_add(*hash, bytes, size);
}

#define MIX(hash, value) mix(hash, &(value), sizeof(value))

static void mix_list(uint64_t *hash, const void *list, size_t cnt, size_t size)
{
	MIX(hash, cnt);
	if (cnt)
		mix(hash, list, cnt * size);
}

static void mix_text(uint64_t *hash, const char *text)
{
	mix(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

/* A cgroup that was removed and created again has the same path, but another inode. */
static void mix_cgroup(uint64_t *hash, const char *path)
{
	struct stat st = {};

	mix_text(hash, path);
	if (!stat(path, &st))
		MIX(hash, st.st_ino);
}

static void mix_filter(uint64_t *hash, const struct filter *f)
{
	mix_list(hash, f->pids, f->pid_cnt, sizeof(*f->pids));
	mix_list(hash, f->tids, f->tid_cnt, sizeof(*f->tids));
	mix_list(hash, f->uids, f->uid_cnt, sizeof(*f->uids));
	mix_list(hash, f->cpus, f->cpu_cnt, sizeof(*f->cpus));
	for (size_t i = 0; i < f->comm_cnt; i++)
		mix_text(hash, f->comms[i]);
	MIX(hash, f->comm_cnt);
	for (size_t i = 0; i < f->cgroup_cnt; i++)
		mix_cgroup(hash, f->cgroups[i]);
}

static void mix_keys(uint64_t *hash, const struct keys *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->key_cnt; i++)
		mix_text(hash, k->key[i].name);
	MIX(hash, k->key_cnt);
	for (size_t i = 0; i < k->sum_cnt; i++)
		mix_text(hash, k->sum[i].name);
	MIX(hash, k->rows);
}

static void mix_opts(uint64_t *hash, const struct attach_opts *o)
{
	const bool yes[] = { o->processes, o->split, o->nesting, o->raw, o->children,
		o->stacks_python };
	const uint32_t numbers[] = { o->link, o->sample, o->budget.share, o->blocks, o->stack_cnt,
		o->rate, o->stacks_of, o->access.mode, o->access.uid, o->access.gid,
		o->access.all };

	MIX(hash, yes);
	MIX(hash, numbers);
	MIX(hash, o->for_ns);
	mix_text(hash, o->condition ? o->condition->text : NULL);
	mix_filter(hash, &o->filter);
	mix_keys(hash, o->keys);
}

int attach_definition(const struct draft *draft, const struct attach_opts *opts,
	uint64_t *ret_definition, struct err *err)
{
	__cleanup(description_done) struct description d = {};
	uint64_t hash = HASH_BEGIN;
	size_t cnt = draft->probed_cnt;
	int code = description_new(draft, opts, NULL, opts->link, &d, err);

	if (code)
		return code;
	mix_list(&hash, d.funcs, cnt, sizeof(*d.funcs));
	mix_list(&hash, d.confs, cnt, sizeof(*d.confs));
	mix_list(&hash, d.conds, cnt, sizeof(*d.conds));
	mix_list(&hash, d.keyed, d.keyed ? cnt : 0, sizeof(*d.keyed));
	mix_list(&hash, d.rules, d.rules ? cnt : 0, sizeof(*d.rules));
	mix_list(&hash, d.libs, draft->objects.cnt, sizeof(*d.libs));
	mix_list(&hash, d.types.types, d.types.type_cnt, sizeof(*d.types.types));
	mix_list(&hash, d.types.names, d.types.name_cnt, sizeof(*d.types.names));
	mix_list(&hash, d.text.buf, d.text.len, 1);
	mix_opts(&hash, opts);
	if (draft->duty > 1)
		MIX(&hash, draft->duty);
	*ret_definition = hash ? hash : 1;
	return 0;
}

/* --- arguments of the functions, and the conditions, keys and sums that use them ----------- */

/* Unknown if code before the entry probe may have overwritten argument registers. */
static enum fsn_regs regs_of(const struct draft *draft, const struct target *t)
{
	/* The probe of a function that is only counted may come after code that writes them. */
	if (t->is_clone || (!draft->keeps_args && t->plan.args_written))
		return FSN_REGS_UNKNOWN;
	return target_regs(t);
}

/* Returns the known arguments of the probed functions; the caller frees the array. */
static struct condition_func *arguments_of(const struct draft *draft)
{
	struct condition_func *funcs = xcalloc(draft->probed_cnt + 1, sizeof(*funcs));

	for (size_t i = 0; i < draft->probed_cnt; i++) {
		const struct preset_func *known = draft->targets[i].known;

		funcs[i].name = draft->targets[i].name;
		funcs[i].regs = regs_of(draft, &draft->targets[i]);
		funcs[i].ends = i < draft->timed_cnt;
		funcs[i].inside = draft->targets[i].inside;
		funcs[i].called = draft->targets[i].kind->has_callers && !funcs[i].inside;
		funcs[i].in_thread = !draft->targets[i].kind->is_wait;
		if (!known)
			continue;
		funcs[i].ret = known->ret_text ? &known->ret : NULL;
		funcs[i].args = known->args;
		funcs[i].arg_cnt = known->arg_cnt;
		funcs[i].has_args = known->has_args;
		funcs[i].types_why = known->types_why;
		funcs[i].product = known->product;
		funcs[i].kernel = known->kernel;
		funcs[i].named = known->named;
		funcs[i].lock = known->lock;
		funcs[i].waits = known->waits;
		funcs[i].memory = &known->memory;
	}
	return funcs;
}

/* Binds @c to the probed functions, a struct fsn_cond each; *@ret_never of them have not all. */
static int describe_conds(const struct draft *draft, const struct condition *c,
	struct fsn_cond *conds, size_t *ret_never, struct err *err)
{
	_cleanup_free_ struct condition_func *funcs = arguments_of(draft);
	int code = 0;

	for (size_t i = 0; !code && i < draft->probed_cnt; i++)
		code = target_kind_check_condition(draft->targets[i].kind, err);
	return code ? code : condition_bind(c, funcs, draft->probed_cnt, conds, ret_never, err);
}

int attach_check_condition(
	const struct draft *draft, const struct condition *c, size_t *ret_never, struct err *err)
{
	_cleanup_free_ struct fsn_cond *conds = xcalloc(draft->probed_cnt + 1, sizeof(*conds));

	return describe_conds(draft, c, conds, ret_never, err);
}

/* Describes which memory the probed functions allocate and free: rules_bind(). */
static int describe_rules(const struct draft *draft, struct fsn_rule *rules, struct rules_left *ret_left,
	struct err *err)
{
	_cleanup_free_ struct condition_func *funcs = arguments_of(draft);

	for (size_t i = 0; i < draft->probed_cnt; i++)
		funcs[i].judged = draft->targets[i].known &&
			draft->targets[i].known->judge.kind != FSN_JUDGE_NONE;
	return rules_bind(funcs, draft->probed_cnt, rules, ret_left, err);
}

int attach_check_memory(const struct draft *draft, struct rules_left *ret_left, struct err *err)
{
	_cleanup_free_ struct fsn_rule *rules = xcalloc(draft->probed_cnt + 1, sizeof(*rules));

	return describe_rules(draft, rules, ret_left, err);
}

/* Where the communicators of a library begin, which is asked once. */
static int locate_communicator(const struct draft *draft, const struct condition_func *funcs,
	size_t fn, uint32_t *ret_at, struct err *err)
{
	const struct object *object = draft->targets[fn].object;

	for (size_t i = 0; i < fn; i++)
		if (draft->targets[i].object == object && funcs[i].communicator_at) {
			*ret_at = funcs[i].communicator_at;
			return 0;
		}
	return communicator_find(object->elf, ret_at, err);
}

static int locate_communicators(const struct draft *draft, const struct keys *keys,
	struct condition_func *funcs, struct err *err)
{
	size_t nth;
	int code = 0;

	if (!keys_at(keys, FSN_BY_COMMUNICATOR))
		return 0;
	for (size_t i = 0; !code && i < draft->probed_cnt; i++)
		if (draft->targets[i].object->elf && keys_communicator(&funcs[i], &nth))
			code = locate_communicator(
				draft, funcs, i, &funcs[i].communicator_at, err);
	return code ? err_wrap(err, "--by 'communicator'") : 0;
}

/* Locates key @k of function @i. Returns -ENOENT if it is not a member there. */
static int locate_member(const struct draft *draft, const struct key_name *key,
	struct condition_func *funcs, size_t i, size_t k)
{
	const struct target *t = &draft->targets[i];
	const char *path;
	size_t nth;

	if (key->by == FSN_BY_MEMBER && funcs[i].regs == FSN_REGS_GO) {
		/* the same for all functions of a file */
		if (i && t->object == t[-1].object && funcs[i - 1].regs == FSN_REGS_GO) {
			funcs[i].member[k] = funcs[i - 1].member[k];
			return funcs[i].member[k].why ? -EINVAL : 0;
		}
		return types_goroutine(t, &funcs[i].member[k].m, &funcs[i].member[k].why);
	}
	return keys_member(&funcs[i], key, &nth, &path)
		? types_member(t, nth, path, &funcs[i].member[k].m, &funcs[i].member[k].why)
		: -ENOENT;
}

static int locate_members(const struct draft *draft, const struct keys *keys,
	struct condition_func *funcs, struct err *err)
{
	for (size_t k = 0; k < keys->key_cnt; k++)
		for (size_t i = 0; i < draft->probed_cnt; i++) {
			int code = locate_member(draft, &keys->key[k], funcs, i, k);

			if (!code)
				funcs[i].member[k].why = NULL;
			else if (code != -EINVAL && code != -ENOENT)
				return err_sys(err, code, "cannot look for members");
		}
	return 0;
}

/* Locates keys that the BPF programs read from memory: communicators and struct members. */
static int locate(const struct draft *draft, const struct keys *keys,
	struct condition_func *funcs, struct err *err)
{
	int code = locate_communicators(draft, keys, funcs, err);

	return code ? code : locate_members(draft, keys, funcs, err);
}

int attach_check_keys(const struct draft *draft, const struct keys *keys,
	struct keys_left *ret_left, struct err *err)
{
	_cleanup_free_ struct fsn_keyed *keyed = xcalloc(draft->probed_cnt + 1, sizeof(*keyed));
	_cleanup_free_ struct condition_func *funcs = arguments_of(draft);
	int code = locate(draft, keys, funcs, err);

	return code ? code : keys_bind(keys, funcs, draft->probed_cnt, keyed, ret_left, err);
}

/* Sets the enumerator names of key parts, after the types have been described. */
static void name_parts(const struct description *d, size_t cnt)
{
	for (size_t i = 0; i < cnt; i++) {
		const struct fsn_func *func = &d->funcs[i];

		for (size_t k = 0; k < FSN_KEYS; k++) {
			const struct fsn_part *part = &d->keyed[i].key[k];
			unsigned int type = 0;

			if (part->what == FSN_BY_RESULT)
				type = func->ret;
			else if (part->what == FSN_BY_NUMBER && part->arg && func->args)
				type = func->args + part->arg - 1;
			if (!type)
				continue;
			d->keyed[i].names[k] = d->types.types[type - 1].names;
			d->keyed[i].name_cnt[k] = d->types.types[type - 1].name_cnt;
		}
	}
}

/* The same of keys and sums, for @d, whose types are described. */
static int describe_keys(struct description *d, const struct draft *draft,
	const struct keys *keys, struct err *err)
{
	_cleanup_free_ struct condition_func *funcs = arguments_of(draft);
	struct keys_left left;
	int code;

	d->keyed = xcalloc(draft->probed_cnt + 1, sizeof(*d->keyed));
	code = locate(draft, keys, funcs, err);
	if (!code)
		code = keys_bind(keys, funcs, draft->probed_cnt, d->keyed, &left, err);
	name_parts(d, draft->probed_cnt);
	keys_summarize(d->keyed, draft->probed_cnt, &d->keys);
	for (size_t i = 0; !code && i < keys->key_cnt; i++)
		d->key_text[i] = strtab_add(&d->text, keys->key[i].name);
	for (size_t i = 0; !code && i < keys->sum_cnt; i++)
		d->sum_text[i] = strtab_add(&d->text, keys->sum[i].name);
	return code;
}

/* --- turning a draft into the records that later commands read ----------------------------- */

_Static_assert(sizeof(struct fsn_stat) == 320, "five cache lines");
_Static_assert(
	offsetof(struct fsn_stat, n.abandoned) == 64, "what most calls write is the first");
_Static_assert(sizeof(struct fsn_set) == 320, "a cache line of keys, four of calls");

/* True if most tail calls of @t are probed at instructions that are single-stepped. */
static bool steps_jumps(const struct target *t)
{
	size_t stepped = 0, jumps = 0;

	for (size_t i = 0; i < t->plan.end_cnt; i++) {
		jumps += plan_end_leaves(t->plan.ends[i].kind);
		stepped += plan_end_leaves(t->plan.ends[i].kind) && t->plan.ends[i].stepped;
	}
	return 2 * stepped > jumps;
}

/* Returns the class of the exit probes of @t. A function that has a ret usually returns by it. */
static enum price_end end_of(const struct target *t)
{
	const struct plan *plan = &t->plan;

	if ((plan->site_is_end && !t->forwards) || plan->exit == PLAN_EXIT_NONE)
		return PRICE_COUNT;
	if (plan->exit == PLAN_EXIT_RETURN)
		return PRICE_RETURN;
	for (size_t i = 0; i < plan->end_cnt; i++)
		if (plan->ends[i].kind == PLAN_END_RET)
			return PRICE_RET;
	if (plan->exit == PLAN_EXIT_EARLY)
		return PRICE_EARLY;
	return t->lost_jumps < plan->end_cnt || steps_jumps(t) ? PRICE_RET : PRICE_JUMP;
}

struct group_func target_shown(const struct target *t)
{
	static const enum fsn_exit exits[] = {
		[PLAN_EXIT_NONE] = FSN_EXIT_NONE,
		[PLAN_EXIT_RETURN] = FSN_EXIT_RETURN,
		[PLAN_EXIT_RET] = FSN_EXIT_RET,
		[PLAN_EXIT_EARLY] = FSN_EXIT_EARLY,
	};

	return (struct group_func){
		.name = t->name,
		.symbol = t->symbol,
		.demangled = t->demangled,
		.kind = t->kind->word,
		.in_file = t->kind->in_files,
		.library = t->object->path,
		.build_id = t->object->build_id,
		.offset = t->offset,
		.site_offset = t->site_offset,
		.site_why = t->plan.site_why,
		.insn = t->plan.insn,
		.exit = t->plan.site_is_end && !t->forwards ? FSN_EXIT_SAME
			: t->how && t->plan.exit            ? FSN_EXIT_SOME
			: t->plan.goroutine                 ? FSN_EXIT_GOROUTINE
							    : exits[t->plan.exit],
		.exit_why = t->plan.exit_why,
		.priced = t->kind->priced_by != PRICED_NOT,
		.site = t->kind->priced_by == PRICED_AS_SYSCALL ? PRICE_SYSCALL
			: t->plan.site_emulated                 ? PRICE_EMULATED
								: PRICE_STEPPED,
		.end = end_of(t),
		.limit = t->limit,
		.types_why = t->known ? t->known->types_why : NULL,
	};
}

/* Adds the other names of @f, each followed by a newline. */
static unsigned int describe_aliases(struct description *d, const struct target *f)
{
	_cleanup_free_ char *names = NULL;
	const char *alias;
	size_t len = 0;

	for (size_t i = 0; (alias = target_alias(f, i)); i++) {
		size_t n = strlen(alias);

		names = xreallocarray(names, len + n + 2, 1);
		memcpy(names + len, alias, n);
		len += n;
		names[len++] = '\n';
		names[len] = '\0';
	}
	return strtab_add(&d->text, names);
}

/* Writes @text as one line, without its newlines. */
static void write_line(FILE *f, const char *text)
{
	for (; text && *text; text++)
		if (*text != '\n')
			fputc(*text, f);
	fputc('\n', f);
}

/* Describes the functions that were left out because their probes would cost too much. */
static void describe_left_out(struct description *d, const struct draft *draft)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *f = xmemstream(&text, &size);

	for (size_t i = draft->probed_cnt; i < draft->target_cnt; i++) {
		const struct target *t = &draft->targets[i];

		if (t->limit != LIMIT_LEFT_OUT)
			continue;
		write_line(f, t->name);
		write_line(f, t->symbol);
		write_line(f, t->object->path);
		fprintf(f, "%" PRIx64 "\n", t->offset);
		write_line(f, t->refused);
		fprintf(f, "%" PRIu64 "\n", t->calls_per_s);
	}
	xmemstream_end(f);
	d->left_out = strtab_add(&d->text, text);
}

static void describe_func(struct description *d, const struct draft *draft, const struct target *f,
	struct fsn_func *func)
{
	const struct {
		const char *str;
		unsigned int *offset;
	} strings[] = {
		{ f->name, &func->name },
		{ f->symbol, &func->symbol },
		{ f->demangled, &func->demangled },
		{ f->plan.insn, &func->insn },
		{ f->plan.site_why, &func->site_why },
		{ f->plan.exit_why, &func->exit_why },
		{ f->known ? f->known->types_why : NULL, &func->types_why },
	};
	const struct group_func shown = target_shown(f);

	snprintf(func->label, sizeof(func->label), "%.*s", FSN_LABEL_LEN - 1, f->name);
	func->offset = f->offset;
	func->site_offset = f->site_offset;
	func->lib = f->object_index;
	func->exit = shown.exit;
	func->jumps = f->lost_jumps;
	func->site = shown.site;
	func->end = shown.end;
	func->kind = f->kind->number;
	func->limit = f->limit;
	func->undercounted = f->places_split;
	func->exact = budget_is_exact(draft, f);
	func->variadic = f->known && f->known->is_variadic;
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		*strings[i].offset = strtab_add(&d->text, strings[i].str);
	func->aliases = describe_aliases(d, f);
	if (f->known)
		type_records_add(&d->types, &d->text, f->known, func);
}

/* Where the text of argument @i is to be found: 0 for none. */
static unsigned char string_place(const struct preset_arg *args, int i)
{
	if (i < 0)
		return 0;
	if (args[i].place.where == PLACE_STACK)
		return FSN_STR_STACK + args[i].place.index;
	if (args[i].place.where == PLACE_RECORD)
		return FSN_STR_KERNEL + 1 + args[i].place.index;
	return 1 + args[i].place.index;
}

/*
 * Sizes of a function such as realloc(), which frees and returns NULL if one of them is 0. Only
 * sizes in registers are known at the entry.
 */
static void describe_zero(const struct preset_func *pf, struct fsn_conf *conf)
{
	const struct preset_memory *m = &pf->memory;
	size_t cnt = 0;

	if (pf->judge.kind != FSN_JUDGE_NULL || !m->allocates || !m->frees ||
		conf->regs == FSN_REGS_UNKNOWN || m->size_cnt > FSN_ZEROS)
		return;
	for (size_t i = 0; i < m->size_cnt; i++) {
		const struct preset_arg *arg = &pf->args[m->size[i].arg - 1];

		if (m->size[i].is_pointed || !preset_value_fits_word(&arg->value) ||
			arg->place.where != PLACE_REG || arg->place.index >= FSN_ARGS)
			continue;
		conf->zero[cnt] = (unsigned char)(1 + arg->place.index);
		conf->zero_width[cnt++] = (unsigned char)(arg->value.size * 8);
	}
}

static void describe_kept(const struct preset_func *pf, struct fsn_conf *conf)
{
	struct types_kept kept = types_kept(pf->args, pf->arg_cnt);

	conf->stack_cnt = kept.stack_cnt;
	for (int i = 0; i < FSN_STRINGS; i++)
		conf->str[i] = string_place(pf->args, kept.strings[i]);
}

/* Sets the corrections: the overhead of a call in its own duration, and in that of its caller. */
static void describe_price(const struct group_func *shown, bool steps_jumps,
	const struct price *price, struct fsn_conf *conf)
{
	const uint32_t *whole_ns = price->whole_ns[shown->site];
	enum price_end end = shown->end == PRICE_RETURN ? PRICE_RETURN : PRICE_RET;

	conf->overhead_ns = price->overhead_ns[shown->site][shown->end];
	conf->noise_ns = conf->overhead_ns ? price_noise_ns(shown->site) : 0;
	/* A system call's own time is not corrected: all of the overhead is its caller's. */
	conf->rest_ns = shown->site == PRICE_SYSCALL ? whole_ns[shown->end]
						     : price->rest_ns[shown->site][shown->end];
	conf->left_ns = price->rest_ns[shown->site][steps_jumps ? PRICE_RET : PRICE_JUMP];
	conf->entry_ns = price->rest_ns[shown->site][PRICE_COUNT];
	conf->end_ns = whole_ns[end] > whole_ns[PRICE_COUNT] ? whole_ns[end] - whole_ns[PRICE_COUNT]
							       : 0;
	conf->passed_ns =
		price->rest_ns[steps_jumps ? PRICE_STEPPED : PRICE_EMULATED][PRICE_COUNT];
}

/*
 * Returns the cost of a call of @f if the BPF programs limit it, otherwise 0. Only the entry of a
 * session link can skip the return probe; with other links an untimed call costs nearly as much.
 */
static uint32_t shed_ns(const struct draft *draft, const struct attach_opts *opts,
	const struct target *f, const struct price *price, enum link_mode mode)
{
	const struct group_func shown = target_shown(f);

	if (!opts->budget.share || !opts->budget.trims || opts->sample > 1 ||
		mode != LINK_SESSION || shown.end != PRICE_RETURN ||
		f->limit != LIMIT_NONE || budget_is_exact(draft, f))
		return 0;
	return price->whole_ns[shown.site][shown.end];
}

static void describe_conf(const struct draft *draft, const struct attach_opts *opts,
	const struct target *f, const struct price *price, enum link_mode mode,
	struct fsn_conf *conf)
{
	const struct group_func shown = target_shown(f);

	conf->slow_ns = f->has_slow ? f->slow_ns : FSN_NO_SLOW;
	conf->regs = regs_of(draft, f);
	conf->sample = f->limit == LIMIT_SAMPLED ? f->sample : 0;
	if (price && (f->kind->is_priced || shown.site == PRICE_SYSCALL))
		describe_price(&shown, steps_jumps(f), price, conf);
	if (price)
		conf->shed_ns = shed_ns(draft, opts, f, price, mode);
	if (!f->known)
		return;
	describe_kept(f->known, conf);
	describe_zero(f->known, conf);
	conf->judge = f->known->judge.kind;
	conf->width = f->known->judge.width;
	conf->ok_cnt = f->known->judge.ok_cnt;
	for (int i = 0; i < conf->ok_cnt; i++)
		conf->ok[i] = f->known->judge.ok[i];
}

static int describe_object(struct description *d, const struct object *object,
	struct fsn_lib *ret_lib, struct err *err)
{
	struct object_id id;
	int code;

	code = object_identify(object, &id, err);
	if (code)
		return code;
	ret_lib->dev = id.dev;
	ret_lib->ino = id.ino;
	ret_lib->size = id.size;
	ret_lib->mtime_ns = id.mtime_ns;
	ret_lib->path = strtab_add(&d->text, object->path);
	if (object->elf)
		ret_lib->soname = strtab_add(&d->text, object_file(object)->soname);
	ret_lib->build_id = strtab_add(&d->text, object->build_id);
	return 0;
}

/* Texts of several, as struct fsn_said has them. */
static void say(char *buf, size_t size, const char *text, char behind)
{
	size_t len = strlen(buf);

	if (len < size)
		snprintf(buf + len, size - len, "%s%c", text, behind);
}

/* Each word with its zero byte, as far as there is room. */
static void say_command(struct fsn_said *said)
{
	_cleanup_close_ int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	while (fd >= 0 && len < sizeof(said->argv) - 1) {
		n = read(fd, said->argv + len, sizeof(said->argv) - 1 - len);
		if (n <= 0)
			break;
		len += n;
	}
}

static void describe_said(const struct attach_opts *opts, struct fsn_said *said)
{
	const struct filter *f = &opts->filter;
	char number[16];

	if (opts->condition)
		snprintf(said->condition, sizeof(said->condition), "%s",
			opts->condition->text);
	say_command(said);
	for (size_t i = 0; i < f->cpu_cnt; i++) {
		snprintf(number, sizeof(number), "%u", f->cpus[i]);
		say(said->cpus, sizeof(said->cpus), number, ' ');
	}
	for (size_t i = 0; i < f->cgroup_cnt; i++)
		say(said->cgroups, sizeof(said->cgroups), f->cgroups[i], '\n');
}

int description_new(const struct draft *draft, const struct attach_opts *opts,
	const struct price *price, enum link_mode mode, struct description *ret_desc, struct err *err)
{
	__cleanup(description_done) struct description d = {
		.funcs = xcalloc(draft->probed_cnt, sizeof(*d.funcs)),
		.confs = xcalloc(draft->probed_cnt, sizeof(*d.confs)),
		.conds = xcalloc(draft->probed_cnt, sizeof(*d.conds)),
		.said = xcalloc(1, sizeof(*d.said)),
		.libs = xcalloc(draft->objects.cnt, sizeof(*d.libs)),
	};
	struct rules_left left;
	size_t never;
	int code = 0;

	for (size_t i = 0; i < draft->probed_cnt; i++) {
		describe_func(&d, draft, &draft->targets[i], &d.funcs[i]);
		describe_conf(draft, opts, &draft->targets[i], price, mode, &d.confs[i]);
		d.sheds |= d.confs[i].shed_ns;
		d.save_args |= d.confs[i].slow_ns != FSN_NO_SLOW;
		d.typed |= draft->targets[i].kind->in_files && draft->targets[i].known &&
			draft->targets[i].known->arg_cnt;
		d.has_more |= d.confs[i].stack_cnt || d.confs[i].str[0];
		d.judged |= d.confs[i].judge != FSN_JUDGE_NONE;
		d.zero_frees |= d.confs[i].zero[0];
		d.other_regs |= d.confs[i].regs != FSN_REGS_C;
		d.wide |= draft->targets[i].kind->has_paths && d.confs[i].str[0];
	}
	for (size_t i = 0; !code && i < draft->objects.cnt; i++)
		code = describe_object(&d, draft->objects.object[i], &d.libs[i], err);
	if (!code && opts->condition)
		code = describe_conds(draft, opts->condition, d.conds, &never, err);
	if (!code && opts->keys)
		code = describe_keys(&d, draft, opts->keys, err);
	if (!code && opts->blocks) {
		d.rules = xcalloc(draft->probed_cnt, sizeof(*d.rules));
		code = describe_rules(draft, d.rules, &left, err);
	}
	/* A collective call that hangs is shown with its arguments before it counts as slow. */
	d.save_args |= opts->keys && keys_at(opts->keys, FSN_BY_COMMUNICATOR);
	if (code)
		return code;
	describe_left_out(&d, draft);
	describe_said(opts, d.said);
	*ret_desc = d;
	memset(&d, 0, sizeof(d));
	return 0;
}

void description_done(struct description *d)
{
	free(d->funcs);
	free(d->confs);
	free(d->conds);
	free(d->rules);
	free(d->keyed);
	free(d->said);
	free(d->libs);
	type_records_done(&d->types);
	strtab_done(&d->text);
}

static int write_rows(int fd, const void *rows, size_t size, size_t cnt, struct err *err)
{
	int code = map_write(fd, 0, cnt, size, rows);

	return code ? err_sys(err, code, "cannot write the group's description") : 0;
}

static int write_text(int fd, const struct strtab *text, struct err *err)
{
	size_t cnt = (text->len + FSN_TEXT_LEN - 1) / FSN_TEXT_LEN;
	_cleanup_free_ char *pieces = xcalloc(cnt, FSN_TEXT_LEN);

	memcpy(pieces, text->buf, text->len);
	return write_rows(fd, pieces, FSN_TEXT_LEN, cnt, err);
}

static void describe_meta(
	const struct description *d, const struct attach_opts *opts, struct fsn_meta *meta)
{
	const struct keys *keys = opts->keys;

	meta->type_cnt = d->types.type_cnt;
	meta->name_cnt = d->types.name_cnt;
	meta->text_bytes = d->text.len;
	meta->stack_cnt = opts->stack_cnt;
	meta->stacks_of = opts->stacks_of;
	if (!keys)
		return;
	meta->row_cnt = keys->rows;
	meta->key_cnt = keys->key_cnt;
	meta->sum_cnt = keys->sum_cnt;
	meta->key_wide = d->keys.wide;
	meta->key_caller = keys_at(keys, FSN_BY_CALLER);
	meta->key_lock = keys_at(keys, FSN_BY_LOCK);
	meta->key_kernel = keys_at(keys, FSN_BY_KERNEL);
	meta->key_cgroup = keys_at(keys, FSN_BY_CGROUP);
	meta->key_stack = keys_at(keys, FSN_BY_STACK);
	memcpy(meta->key, d->key_text, sizeof(meta->key));
	memcpy(meta->sum, d->sum_text, sizeof(meta->sum));
}

int description_write(const struct description *d, const struct draft *draft,
	const struct attach_opts *opts, struct engine *e, struct fsn_meta *meta,
	struct err *err)
{
	const struct {
		enum map_id id;
		const void *rows;
		size_t size, cnt;
	} maps[] = {
		{ MAPID_FUNCS, d->funcs, sizeof(*d->funcs), draft->probed_cnt },
		{ MAPID_CONFS, d->confs, sizeof(*d->confs), draft->probed_cnt },
		{ MAPID_LIBS, d->libs, sizeof(*d->libs), draft->objects.cnt },
		{ MAPID_TYPES, d->types.types, sizeof(*d->types.types), d->types.type_cnt },
		{ MAPID_NAMES, d->types.names, sizeof(*d->types.names), d->types.name_cnt },
		{ MAPID_CONDS, d->conds, sizeof(*d->conds), draft->probed_cnt },
		{ MAPID_KEYED_BY, d->keyed, sizeof(*d->keyed), d->keyed ? draft->probed_cnt : 0 },
		{ MAPID_RULES_OF, d->rules, sizeof(*d->rules), d->rules ? draft->probed_cnt : 0 },
		{ MAPID_SAID, d->said, sizeof(*d->said), 1 },
		{ MAPID_META, meta, sizeof(*meta), 1 },
	};
	int code;

	describe_meta(d, opts, meta);
	meta->left_out = d->left_out;
	code = write_text(engine_map_fd(e, MAPID_TEXT), &d->text, err);
	for (size_t i = 0; !code && i < ARRAY_SIZE(maps); i++)
		code = write_rows(engine_map_fd(e, maps[i].id), maps[i].rows, maps[i].size,
			maps[i].cnt, err);
	return code;
}
