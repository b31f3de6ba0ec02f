// SPDX-License-Identifier: BSD-2-Clause
// How functions allocate and free memory: turns rules of presets into rules of the BPF programs.
#include <errno.h>
#include <string.h>

#include "group/keys.h"
#include "group/records.h"

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
