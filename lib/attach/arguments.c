// SPDX-License-Identifier: BSD-2-Clause
// What the functions of a group make of arguments: conditions, keys and sums.
#include <errno.h>
#include <stdlib.h>

#include "attach/attach.h"
#include "code/communicator.h"
#include "internal.h"
#include "target/kind.h"

enum fsn_regs regs_of(const struct draft *draft, const struct target *t)
{
	/* Counting alone steps over code that writes argument registers. */
	if (t->is_clone || (!draft->keeps_args && t->plan.args_written))
		return FSN_REGS_UNKNOWN;
	return target_regs(t);
}

/* What is known of the arguments of the probed functions; free() it. */
static struct condition_func *arguments_of(const struct draft *draft)
{
	struct condition_func *funcs = xcalloc(draft->probed_cnt + 1, sizeof(*funcs));

	for (size_t i = 0; i < draft->probed_cnt; i++) {
		const struct preset_func *known = draft->targets[i].known;

		funcs[i].name = draft->targets[i].name;
		funcs[i].regs = regs_of(draft, &draft->targets[i]);
		funcs[i].ends = i < draft->timed_cnt;
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
		funcs[i].memory = &known->memory;
	}
	return funcs;
}

int describe_conds(const struct draft *draft, const struct condition *c,
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

int describe_rules(const struct draft *draft, struct fsn_rule *rules, struct rules_left *ret_left,
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
	return code ? err_wrap(err, "--key 'communicator'") : 0;
}

static int locate_members(const struct draft *draft, const struct keys *keys,
	struct condition_func *funcs, struct err *err)
{
	int code = 0;

	for (size_t k = 0; k < keys->key_cnt; k++)
		for (size_t i = 0; !code && i < draft->probed_cnt; i++) {
			const char *path;
			size_t nth;

			if (!keys_member(&funcs[i], &keys->key[k], &nth, &path))
				continue;
			code = types_member(&draft->targets[i], nth, path,
				&funcs[i].member[k].m, &funcs[i].member[k].why);
			if (!code)
				funcs[i].member[k].why = NULL;
			code = code == -EINVAL ? 0 : code;
		}
	return code ? err_sys(err, code, "cannot look for members") : 0;
}

/* What keys are of that lies in memory. */
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

/* What parts of keys may be called; types are described before. */
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

int describe_keys(struct description *d, const struct draft *draft,
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
	d->key_wide = keys_are_wide(d->keyed, draft->probed_cnt);
	keys_kinds(d->keyed, draft->probed_cnt, d->key_kinds);
	d->key_late = keys_are_late(d->keyed, draft->probed_cnt);
	d->asked = keys_are_asked(d->keyed, draft->probed_cnt);
	for (size_t i = 0; !code && i < keys->key_cnt; i++)
		d->key_text[i] = strtab_add(&d->text, keys->key[i].name);
	for (size_t i = 0; !code && i < keys->sum_cnt; i++)
		d->sum_text[i] = strtab_add(&d->text, keys->sum[i].name);
	return code;
}
