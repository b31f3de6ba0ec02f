// SPDX-License-Identifier: BSD-2-Clause
// Functions of the kernel: by name, of the kernel itself or of modules; as its BTF declares them.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/btf.h>

#include "base/buffer.h"
#include "base/text.h"
#include "base/util.h"
#include "internal.h"
#include "kernel/kfunc.h"
#include "preset/preset.h"
#include "shared/words.h"
#include "target/kind.h"

#define GLOB_EXACT 64 /* of functions of globs, a program for each up to so many */

static const struct object kernel = {
	.kind = OBJECT_KERNEL,
	.path = "[kernel]",
	.build_id = "",
	.found_how = "this kernel",
};

/* --- what BTF declares ------------------------------------------------------------------------ */

/* One look-up: what it finds, and with what. */
struct finding {
	struct targets *targets;
	size_t first; /* of .targets, those of this look-up */
	struct kfuncs *kfuncs;
	const struct preset_type *errors;
	const struct btf *dumped; /* that .dump is of */
	struct btf_dump *dump;
	struct out text;          /* that it writes to */
};

static void on_text(void *ctx, const char *format, va_list args)
{
	struct finding *f = ctx;
	char buf[512];

	vsnprintf(buf, sizeof(buf), format, args);
	out_str(&f->text, buf);
}

/* "struct file *file"; NULL when memory is out. */
static const char *declare(struct finding *f, const struct btf *btf, uint32_t type,
	const char *name)
{
	LIBBPF_OPTS(btf_dump_emit_type_decl_opts, opts, .field_name = name);

	if (f->dumped != btf) {
		btf_dump__free(f->dump);
		f->dump = btf_dump__new(btf, on_text, f, NULL);
		f->dumped = f->dump ? btf : NULL;
		if (!f->dump)
			return NULL;
	}
	f->text.len = 0;
	if (btf_dump__emit_type_decl(f->dump, type, &opts))
		out_str(&f->text, "?");
	out_char(&f->text, '\0');
	return f->text.failed ? NULL : targets_text(f->targets, f->text.buf);
}

/* Behind names and qualifiers; *@ret_name is the first name on the way, or NULL. */
static const struct btf_type *plain_type(
	const struct btf *btf, uint32_t type, const char **ret_name)
{
	const struct btf_type *t = btf__type_by_id(btf, type);

	*ret_name = NULL;
	while (t && (btf_is_mod(t) || btf_is_typedef(t) || btf_kind(t) == BTF_KIND_TYPE_TAG)) {
		if (btf_is_typedef(t) && !*ret_name)
			*ret_name = btf__name_by_offset(btf, t->name_off);
		t = btf__type_by_id(btf, t->type);
	}
	return t;
}

/* Text is what "const char *" points to. */
static bool is_text(const struct btf *btf, const struct btf_type *pointer)
{
	const struct btf_type *t = btf__type_by_id(btf, pointer->type);
	const char *name;

	while (t && btf_kind(t) == BTF_KIND_TYPE_TAG)
		t = btf__type_by_id(btf, t->type);
	if (!t || !btf_is_const(t))
		return false;
	t = plain_type(btf, t->type, &name);
	return t && btf_is_int(t) && t->size == 1;
}

static struct preset_value value_of(const struct btf *btf, uint32_t type)
{
	const char *name;
	const struct btf_type *t = plain_type(btf, type, &name);

	if (!type || !t)
		return (struct preset_value) { .kind = TYPE_VOID };
	if (btf_is_ptr(t))
		return (struct preset_value) {
			.kind = is_text(btf, t) ? TYPE_STRING : TYPE_POINTER, .size = 8 };
	if (btf_is_int(t) && t->size <= 8)
		return (struct preset_value) {
			.kind = (btf_int_encoding(t) & BTF_INT_BOOL) ? TYPE_BOOL : TYPE_INT,
			.size = t->size, .is_signed = btf_int_encoding(t) & BTF_INT_SIGNED };
	if (btf_is_any_enum(t))
		return (struct preset_value) { .kind = TYPE_INT, .size = t->size,
			.is_signed = btf_kflag(t) };
	return (struct preset_value) { .kind = TYPE_UNKNOWN, .size = 8 };
}

/* A structure by value takes registers, or none, as its size says. */
static bool is_word(const struct btf *btf, uint32_t type)
{
	return value_of(btf, type).kind != TYPE_UNKNOWN;
}

/* Negative results are errors of what returns int, or a length with errors for lengths. */
static bool returns_errors(const struct btf *btf, uint32_t type)
{
	const char *name;
	const struct btf_type *t = plain_type(btf, type, &name);

	if (!type || !t || !btf_is_int(t) || !(btf_int_encoding(t) & BTF_INT_SIGNED))
		return false;
	return name ? !strcmp(name, "ssize_t")
		    : !strcmp(btf__name_by_offset(btf, t->name_off), "int");
}

static const struct btf_type *proto_of(const struct kfunc *func)
{
	const struct btf_type *t = btf__type_by_id(func->btf, func->id);

	t = t ? btf__type_by_id(func->btf, t->type) : NULL;
	return t && btf_is_func_proto(t) ? t : NULL;
}

/* Whether all arguments come in registers, a word each: what trampolines hand on everywhere. */
static bool is_plain(const struct kfunc *func)
{
	const struct btf_type *proto = proto_of(func);

	if (!proto || btf_vlen(proto) > FSN_ARGS)
		return false;
	for (int i = 0; i < btf_vlen(proto); i++)
		if (!btf_params(proto)[i].type || !is_word(func->btf, btf_params(proto)[i].type))
			return false;
	return true;
}

static int declare_args(struct finding *f, const struct kfunc *func,
	const struct btf_type *proto, struct preset_func *known)
{
	const struct btf_param *p = btf_params(proto);
	size_t cnt = btf_vlen(proto), words = 0;
	struct preset_arg *args = targets_keep(f->targets, (cnt + 1) * sizeof(*args));

	if (!args)
		return -ENOMEM;
	for (size_t i = 0; i < cnt && p[i].type; i++) {
		struct preset_arg *arg = &args[known->arg_cnt++];
		const char *name = btf__name_by_offset(func->btf, p[i].name_off);

		arg->name = targets_text(f->targets, name);
		arg->text = declare(f, func->btf, p[i].type, name);
		arg->value = value_of(func->btf, p[i].type);
		/* Where what follows a structure lies is not looked for. */
		words = is_word(func->btf, p[i].type) ? words : FSN_ARGS;
		arg->place.where = words < FSN_ARGS ? PLACE_REG : PLACE_NOWHERE;
		arg->place.index = words++;
		arg->place.words = 1;
		if (!arg->name || !arg->text)
			return -ENOMEM;
	}
	known->args = args;
	known->has_args = true;
	return 0;
}

/* What BTF says of a function, and above it what @said does, if not NULL. */
static const struct preset_func *know(
	struct finding *f, const struct kfunc *func, const struct preset_func *said)
{
	struct preset_func *known = targets_keep(f->targets, sizeof(*known));
	const struct btf_type *proto = proto_of(func);

	if (!known)
		return NULL;
	known->name = known->symbol = func->name;
	if (proto) {
		if (declare_args(f, func, proto, known))
			return NULL;
		known->ret_text = declare(f, func->btf, proto->type, "");
		known->ret = value_of(func->btf, proto->type);
		if (!known->ret_text)
			return NULL;
		if (returns_errors(func->btf, proto->type)) {
			known->ret.type = f->errors;
			known->judge.kind = FSN_JUDGE_NEGATIVE;
			known->judge.width = known->ret.size * 8;
		}
	}
	if (said)
		known_override(known, said);
	return known;
}

/* --- by name ---------------------------------------------------------------------------------- */

/* That of the kernel, or one for each module. */
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
	if (!object)
		return NULL;
	*object = kernel;
	object->path = targets_text(f->targets, path);
	return object->path ? object : NULL;
}

static int find_one(struct finding *f, const struct request *req, const struct kfunc *func,
	bool glob)
{
	const char *refused = kfuncs_refuse(f->kfuncs, func);
	struct target t = { .request = req, .offset = func->id, .site_offset = func->id,
		.from_pattern = glob || req->optional, .how = is_plain(func) ? KFUNC_FENTRY : KFUNC_MULTI };

	t.object = object_of(f, func->module);
	if (!t.object)
		return -ENOMEM;
	for (size_t i = f->first; i < f->targets->cnt; i++) {
		struct target *other = &f->targets->target[i];

		if (other->offset != func->id || other->object != t.object)
			continue;
		other->from_pattern &= glob || req->optional;
		return 0;
	}
	t.symbol = targets_text(f->targets, func->name);
	t.name = req->name && !glob ? req->name : t.symbol;
	t.known = know(f, func, req->known);
	if (refused)
		t.refused = targets_text(f->targets, refused);
	return t.symbol && t.known && !refused == !t.refused ? targets_add(f->targets, &t) : -ENOMEM;
}

/* In the hint the names that are near. */
static int not_found(const struct finding *f, const char *text, struct err *err)
{
	char hint[ERR_HINT_LEN];
	struct suggest near;
	size_t cnt;
	const struct kfunc *funcs = kfuncs_all(f->kfuncs, &cnt);

	err_set(err, -ENOENT, "no function '%s' in the kernel's BTF", text);
	suggest_init(&near, text);
	for (size_t i = 0; i < cnt; i++)
		suggest_offer(&near, funcs[i].name, NULL);
	if (suggest_text(&near, hint, sizeof(hint)))
		err_hint(err, "%s", hint);
	return -ENOENT;
}

/* Those that @req means, from number @first on. */
static int find_from(struct finding *f, const struct request *req, const struct pattern *pattern,
	size_t first, size_t *ret_hits)
{
	const char *text = target_name_in(&target_kfunc, req->func);
	bool glob = req->regex || pattern_is_glob(text);
	size_t cnt;
	const struct kfunc *funcs = kfuncs_all(f->kfuncs, &cnt);
	int code = 0;

	for (size_t i = first; !code && i < cnt; i++) {
		if (glob ? !pattern_match(pattern, funcs[i].name)
			 : strcmp(funcs[i].name, text) != 0)
			continue;
		++*ret_hits;
		code = find_one(f, req, &funcs[i], glob);
	}
	return code;
}

static int find_request(struct finding *f, const struct request *req, struct err *err)
{
	const char *text = target_name_in(&target_kfunc, req->func);
	_cleanup_pattern_ struct pattern pattern = {};
	size_t hits = 0, cnt;
	int code;

	code = pattern_init(&pattern, req->regex ? PATTERN_REGEX : PATTERN_GLOB, text, err);
	if (code)
		return code;
	kfuncs_all(f->kfuncs, &cnt);
	code = find_from(f, req, &pattern, 0, &hits);
	if (!code && (!hits || req->regex || pattern_is_glob(text))) {
		code = kfuncs_add_modules(f->kfuncs, err);
		if (code)
			return code;
		code = find_from(f, req, &pattern, cnt, &hits);
	}
	if (!code && !hits && req->optional)
		code = targets_miss(f->targets, req);
	if (code)
		return err_sys(err, code, "cannot list the kernel's functions");
	return hits || req->optional ? 0 : not_found(f, text, err);
}

static int kfunc_find(struct libfind *finder, const struct objects *objects,
	const struct request *const *reqs, size_t req_cnt, struct targets *targets,
	struct err *err)
{
	struct finding f = { .targets = targets, .first = targets->cnt };
	_cleanup_kfuncs_ struct kfuncs *kfuncs = NULL;
	int code;

	if (!req_cnt)
		return 0;
	f.errors = errno_type(targets);
	if (!f.errors)
		return err_sys(err, -ENOMEM, "cannot list the kernel's functions");
	code = kfuncs_open(&kfuncs, err);
	f.kfuncs = kfuncs;
	for (size_t i = 0; !code && i < req_cnt; i++)
		code = find_request(&f, reqs[i], err);
	btf_dump__free(f.dump);
	out_done(&f.text);
	if (code)
		targets_cut(targets, f.first);
	return code;
}

/* --- probes ----------------------------------------------------------------------------------- */

/* What this kernel offers: which of enum kfunc_how. */
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

/* Many, or what a trampoline can't take, by kprobes, if there are any. */
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
			o->has[KFUNC_FENTRY] ? "kprobes, and it takes more than fentry hands on"
					     : o->lacking);
		t->refused = plan->refused;
		return;
	}
	plan->site_emulated = true;
	plan->exit = rules->exit != PLAN_MODE_NONE ? PLAN_EXIT_RETURN : PLAN_EXIT_NONE;
	snprintf(plan->site_why, sizeof(plan->site_why), "%s", site_whys[t->how]);
	snprintf(plan->exit_why, sizeof(plan->exit_why), "%s",
		plan->exit == PLAN_EXIT_NONE ? "only counted: --count or --exit none"
		: t->how == KFUNC_FENTRY     ? "fexit"
					     : "kretprobe: not all ends may be seen");
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
	int code = 0;

	if (draft->entries_alone)
		ends = false;
	if (ends)
		code = probes_add(p, t->object_index, fentry ? ENGINE_FEXIT : ENGINE_KRETURN, at,
			cookie | (uint64_t)FSN_RETURN << FSN_COOKIE_KIND_SHIFT);
	else
		cookie |= (uint64_t)FSN_COUNT << FSN_COOKIE_KIND_SHIFT;
	return code ? code
		    : probes_add(p, t->object_index, fentry ? ENGINE_FENTRY : ENGINE_KPROBE, at,
			      cookie);
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

/* Its end can't be missed while its thread is there. */
static bool kfunc_call_is_over(struct proc_stack *stack, uint64_t where)
{
	return false;
}

const struct target_kind target_kfunc = {
	.number = TARGET_KFUNC,
	.prefix = "k",
	.also = { "kprobe", "fentry" },
	.noun = "kernel function",
	.word = "kfunc",
	.most = 500,
	.find = kfunc_find,
	.plan = kfunc_plan,
	.link = kfunc_link,
	.is_stale = kfunc_is_stale,
	.call_is_stale = kfunc_call_is_over,
	.call_is_lost = kfunc_call_is_over,
};
