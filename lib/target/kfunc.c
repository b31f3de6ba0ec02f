// SPDX-License-Identifier: BSD-2-Clause
// Functions of the kernel: by name, of the kernel itself or of modules; as its BTF declares them.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/kfunc.h"
#include "preset/preset.h"
#include "shared/words.h"
#include "target/kind.h"
#include "target/types.h"

#define GLOB_EXACT 64 /* functions matched by globs get one program each up to this number */

static const struct object kernel = {
	.kind = OBJECT_KERNEL,
	.path = "[kernel]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- what BTF declares ------------------------------------------------------------------------ */

/* The state of one lookup. */
struct finding {
	struct targets *targets;
	size_t first; /* index in .targets of the first one found by this lookup */
	struct kfuncs *kfuncs;
	const struct preset_type *errors;
	struct btf_types *types;
};

/* Negative results are errors if the function returns int, or ssize_t. */
static bool returns_errors(const struct preset_func *declared)
{
	return declared->ret_text &&
		(!strcmp(declared->ret_text, "int") || !strcmp(declared->ret_text, "ssize_t"));
}

/*
 * True if all arguments are in registers, one word each: trampolines pass these on in all kernels.
 */
static bool is_plain(const struct preset_func *declared)
{
	if (!declared->has_args || declared->is_variadic || declared->arg_cnt > FSN_ARGS)
		return false;
	for (size_t i = 0; i < declared->arg_cnt; i++) {
		const struct preset_value *v = &declared->args[i].value;

		if (v->size > 8 || v->kind == TYPE_STRUCT || v->kind == TYPE_FLOAT)
			return false;
	}
	return true;
}

/* Arguments as BTF declares them; those on the kernel's stack are not read. */
static void args_declare(struct finding *f, struct preset_func *known)
{
	struct preset_arg *args = targets_keep(f->targets, (known->arg_cnt + 1) * sizeof(*args));

	for (size_t i = 0; i < known->arg_cnt; i++) {
		args[i] = known->args[i];
		if (args[i].place.where == PLACE_STACK)
			args[i].place.where = PLACE_NOWHERE;
	}
	known->args = args;
}

/* Builds the declaration from BTF; @said, if not NULL, overrides it. */
static const struct preset_func *know(struct finding *f, const struct kfunc *func,
	const struct preset_func *said, bool *ret_plain)
{
	const struct preset_func *declared = types_of_btf(f->types, func->btf, func->id);
	struct preset_func *known = targets_keep(f->targets, sizeof(*known));

	*known = *declared;
	*ret_plain = is_plain(declared);
	args_declare(f, known);
	if (returns_errors(declared)) {
		known->ret.type = f->errors;
		known->judge.kind = FSN_JUDGE_NEGATIVE;
		known->judge.width = known->ret.size * 8;
	}
	if (said)
		known_override(known, said);
	return known;
}

/* --- by name ---------------------------------------------------------------------------------- */

/* Returns the object of the kernel, or of a module. */
static const struct object *object_of(struct finding *f, const char *module)
{
	char path[128];
	struct object *object;

	if (!module)
		return &kernel;
	snprintf(path, sizeof(path), "[%s]", module);
	for (size_t i = f->first; i < f->targets->cnt; i++)
		if (!strcmp(f->targets->target[i].object->path, path))
			return f->targets->target[i].object;
	object = targets_keep(f->targets, sizeof(*object));
	*object = kernel;
	object->path = targets_text(f->targets, path);
	return object;
}

/* Reads functions of modules only for patterns and for names that the kernel itself lacks. */
static int kfunc_names(struct lookup *l, struct err *err)
{
	struct finding *f = l->by;
	size_t cnt, done = 0;
	const struct kfunc *funcs = kfuncs_all(f->kfuncs, &cnt);
	int code = 0;

	for (int modules = 0; !code && modules < 2; modules++) {
		for (; !code && done < cnt; done++)
			code = lookup_offer(l, funcs[done].name, &funcs[done], err);
		if (code || modules || l->suggests || (l->hits && !l->glob))
			continue;
		kfuncs_add_modules(f->kfuncs);
		funcs = kfuncs_all(f->kfuncs, &cnt);
	}
	return code;
}

static int kfunc_make(
	struct lookup *l, const char *name, const void *what, struct target *t, struct err *err)
{
	struct finding *f = l->by;
	const struct kfunc *func = what;
	const char *refused = kfuncs_refuse(f->kfuncs, func);
	bool plain = false;

	t->object = object_of(f, func->module);
	t->offset = func->id;
	t->symbol = targets_text(l->targets, func->name);
	t->known = know(f, func, l->req->known, &plain);
	t->how = plain ? KFUNC_FENTRY : KFUNC_MULTI;
	if (refused)
		t->refused = targets_text(l->targets, refused);
	return 0;
}

static int kfunc_open(struct lookup *l, struct err *err)
{
	struct finding *f = targets_keep(l->targets, sizeof(*f));

	*f = (struct finding) { .targets = l->targets, .first = l->first,
		.errors = errno_type(l->targets), .types = btf_types_new(l->targets) };
	l->by = f;
	return kfuncs_open(&f->kfuncs, err);
}

static void kfunc_close(struct lookup *l)
{
	struct finding *f = l->by;

	btf_types_free(f->types);
	kfuncs_free(f->kfuncs);
}

static const struct catalogue functions = {
	.none = "no function",
	.none_in = " in the kernel's BTF",
	.parents = true, /* MODULE:NAME of other tracers */
	.open = kfunc_open,
	.close = kfunc_close,
	.names = kfunc_names,
	.make = kfunc_make,
};

/* --- probes ----------------------------------------------------------------------------------- */

/* The probe types of enum kfunc_how that this kernel has. */
struct offer {
	bool has[KFUNC_CNT];
	char lacking[136];
};

static void offer_read(struct offer *o)
{
	for (int how = 0; how < KFUNC_CNT; how++)
		o->has[how] = !kfunc_how_probe(how);
	kfunc_lacking(o->lacking, sizeof(o->lacking));
}

/* Uses kprobes, if available, for many functions and for those that trampolines do not support. */
static void plan_one(struct target *t, const struct offer *o, bool many,
	const struct plan_rules *rules)
{
	static const char *const site_whys[] = { "fentry", "kprobe.multi", "kprobe" };
	bool kprobes = o->has[KFUNC_MULTI] || o->has[KFUNC_KPROBE];
	struct plan *plan = &t->plan;

	if (!o->has[KFUNC_FENTRY] || (rules->kprobes && kprobes) || t->how != KFUNC_FENTRY || (many && kprobes && t->from_pattern))
		t->how = o->has[KFUNC_MULTI] ? KFUNC_MULTI : KFUNC_KPROBE;
	if (t->how != KFUNC_FENTRY && !kprobes) {
		snprintf(plan->refused, sizeof(plan->refused), "this kernel has no %s",
			o->has[KFUNC_FENTRY] ? "kprobes, and it has more arguments than fentry passes"
					     : o->lacking);
		t->refused = plan->refused;
		return;
	}
	plan->site_emulated = true;
	plan->exit = rules->exit != PLAN_MODE_NONE ? PLAN_EXIT_RETURN : PLAN_EXIT_NONE;
	snprintf(plan->site_why, sizeof(plan->site_why), "%s", site_whys[t->how]);
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s",
		plan->exit == PLAN_EXIT_NONE ? "only counted: --count or --probe exit=none"
		: t->how == KFUNC_FENTRY     ? "fexit"
					     : "kretprobe: some returns may be missed");
}

static int kfunc_plan(struct draft *draft, size_t first, size_t cnt,
	const struct plan_rules *rules, struct err *err)
{
	struct offer offer = {};
	size_t many = 0;

	offer_read(&offer);
	for (size_t i = first; i < first + cnt; i++)
		many += !draft->targets[i].refused && draft->targets[i].from_pattern;
	for (size_t i = first; i < first + cnt; i++)
		if (!draft->targets[i].refused)
			plan_one(&draft->targets[i], &offer, many > GLOB_EXACT, rules);
	return 0;
}

static int kfunc_link(
	struct probes *p, const struct draft *draft, uint32_t fn, enum link_mode mode)
{
	const struct target *t = &draft->targets[fn];
	bool fentry = t->how == KFUNC_FENTRY, ends = t->plan.exit != PLAN_EXIT_NONE;
	uint64_t at = fentry ? t->offset : (uintptr_t)t->symbol, cookie = fn;

	if (draft->entries_alone)
		ends = false;
	if (ends)
		probes_add(p, t->object_index, fentry ? ENGINE_FEXIT : ENGINE_KRETURN, at,
			cookie | (uint64_t)FSN_RETURN << FSN_COOKIE_KIND_SHIFT);
	else
		cookie |= (uint64_t)FSN_COUNT << FSN_COOKIE_KIND_SHIFT;
	probes_add(p, t->object_index, fentry ? ENGINE_FENTRY : ENGINE_KPROBE, at, cookie);
	return 0;
}

/* --- calls in progress ------------------------------------------------------------------------ */

/* A module may have been removed. */
static bool kfunc_is_stale(const char *path, const struct object_id *id)
{
	char folder[160];
	int len = strlen(path);

	if (!strcmp(path, kernel.path) || len < 3)
		return false;
	snprintf(folder, sizeof(folder), "/sys/module/%.*s", len - 2, path + 1);
	return access(folder, F_OK) != 0;
}

const struct target_kind target_kfunc = {
	.number = TARGET_KFUNC,
	.prefix = "k",
	.also = { "kprobe", "kretprobe", "fentry", "fexit", "kfunc", "kretfunc" },
	.instead = "use a system call or a tracepoint: 'funcsnoop list targets \"s:*\" \"t:*\"'",
	.noun = "kernel function",
	.word = "kfunc",
	.most = 500,
	.stacks = STACKS_OF_THREADS,
	.catalogue = &functions,
	.plan = kfunc_plan,
	.link = kfunc_link,
	.is_stale = kfunc_is_stale,
	.call_is_stale = event_call_is_over,
	.call_is_lost = event_call_is_over,
};
