// SPDX-License-Identifier: BSD-2-Clause
// Choosing the functions of a group and planning their probes.
#include <errno.h>
#include <string.h>

#include "base/pattern.h"
#include "elf/demangle.h"
#include "proc/proc.h"
#include "target/requests.h"
#include "target/safe.h"

/* --- in which libraries --------------------------------------------------------------------- */

/* Those of --lib, all of which must be found; or those of the preset, one of which must. */
static int find_libs(struct objects *l, struct libfind *finder, const struct draft_opts *opts,
	struct err *err)
{
	const struct preset_group *preset = opts->preset;
	int code;

	if (opts->lib_cnt)
		return objects_find(l, finder, opts->libs, opts->lib_cnt, LIBS_ALL, err);
	if (!preset)
		return 0;
	code = objects_find(l, finder, preset->libs, preset->lib_cnt,
		opts->lenient ? LIBS_ONE : LIBS_ALL, err);
	if (code == -ENOENT)
		draft_hint_static(finder, opts, err);
	return code;
}

/* --- plans ---------------------------------------------------------------------------------- */

#ifdef __aarch64__
#define HOST_ARCH PLAN_ARM64
#else
#define HOST_ARCH PLAN_X86_64
#endif

/* One planner for each file. */
struct planned {
	const struct object *lib;
	struct planner *planner;
	const char *return_why;
	const char *refused; /* why none of its functions can be probed, or NULL */
};

struct planners {
	struct planned *of;
	size_t cnt;
};

static void planners_done(struct planners *p)
{
	for (size_t i = 0; i < p->cnt; i++)
		planner_free(p->of[i].planner);
	free(p->of);
}

static int planner_of(struct planners *p, const struct object *lib,
	const struct plan_rules *rules, struct planned **ret_planned, struct err *err)
{
	struct plan_image image;
	struct planned *more, new = { .lib = lib };
	int code;

	for (size_t i = 0; i < p->cnt; i++)
		if (p->of[i].lib == lib) {
			*ret_planned = &p->of[i];
			return 0;
		}
	if (elf_file_info(lib->elf)->arch != HOST_ARCH)
		return err_set(err, -ENOEXEC, "'%s' is for another architecture", lib->path);
	code = safe_return_why(lib->elf, &new.return_why, err);
	if (!code)
		code = safe_refused_why(lib->elf, &new.refused, err);
	if (!code)
		code = elf_file_image(lib->elf, &image, err);
	if (code)
		return code;
	more = reallocarray(p->of, p->cnt + 1, sizeof(*more));
	if (!more)
		return err_sys(err, -ENOMEM, "cannot plan probes");
	p->of = more;
	code = planner_new(&image, rules, &new.planner, err);
	if (code)
		return code;
	p->of[p->cnt] = new;
	*ret_planned = &p->of[p->cnt++];
	return 0;
}

static int func_plan(struct target *f, struct planners *planners,
	const struct draft_opts *opts, struct err *err)
{
	const struct resolve_target *found = f->found;
	struct planned *planned = NULL;
	struct plan_request req = {
		.name = found->symbol,
		.addr = found->addr,
		.size = found->func && !found->inside ? found->func->size : 0,
	};
	int code;

	code = planner_of(planners, f->object, &opts->rules, &planned, err);
	if (code)
		return code;
	f->refused = planned->refused;
	if (f->refused)
		return 0;
	req.return_why = f->preset && f->preset->nothrow_why ? f->preset->nothrow_why :
							       planned->return_why;
	code = planner_plan(planned->planner, &req, &f->plan, err);
	if (code)
		return code;
	if (f->plan.refused[0]) {
		f->refused = f->plan.refused;
		return 0;
	}
	if (elf_file_addr_to_offset(f->object->elf, f->plan.site, &f->site_offset))
		return err_set(err, -ERANGE, "probe site of '%s' lies outside the file",
			f->name);
	return 0;
}

/* The last --slow that names the function, else its own from a configuration. */
static void func_slow(struct target *f, const struct draft_opts *opts)
{
	if (f->preset && f->preset->has_slow) {
		f->has_slow = true;
		f->slow_ns = f->preset->slow_ns;
	}
	for (int named = 0; named <= 1; named++)
		for (size_t i = 0; i < opts->slow_cnt; i++) {
			const char *func = opts->slow[i].func;

			if (!func != !named || (func && !pattern_glob(func, f->name)))
				continue;
			f->has_slow = true;
			f->slow_ns = opts->slow[i].ns;
		}
}

/* A --slow FUNCTION=DUR that names none of the functions is a typing error. */
static int slow_check(const struct draft *draft, const struct draft_opts *opts, struct err *err)
{
	for (size_t i = 0; i < opts->slow_cnt; i++) {
		size_t k = 0;

		while (opts->slow[i].func && k < draft->target_cnt &&
			!pattern_glob(opts->slow[i].func, draft->targets[k].name))
			k++;
		if (opts->slow[i].func && k == draft->target_cnt)
			return err_set(err, -ENOENT, "--slow: no function '%s' in the group",
				opts->slow[i].func);
	}
	return 0;
}

/* --- the draft ------------------------------------------------------------------------------ */

static int order_of(const struct target *f)
{
	if (f->refused)
		return 2;
	return f->plan.exit == PLAN_EXIT_NONE || (f->plan.site_is_end && !f->forwards);
}

static int compare_funcs(const void *a, const void *b)
{
	const struct target *x = a, *y = b;
	int order = order_of(x) - order_of(y);

	if (!order)
		order = strcmp(x->name, y->name);
	if (!order)
		order = strcmp(x->object->path, y->object->path);
	return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Whether to go on after an error that is to be told, and the first is kept. */
static bool forgive(
	struct draft *draft, const struct draft_opts *opts, int code, const struct err *err)
{
	if (!opts->explain || (code != -ENOENT && code != -EOPNOTSUPP))
		return false;
	if (!draft->failure.code)
		draft->failure = *err;
	return true;
}

static int draft_fill(struct draft *draft, const struct requests *r,
	const struct draft_opts *opts, struct err *err)
{
	__cleanup(planners_done) struct planners planners = {};
	const struct resolution *found = draft->resolution;
	int code;

	draft->targets = calloc(found->target_cnt + 1, sizeof(*draft->targets));
	draft->missing = calloc(found->missing_cnt + 1, sizeof(*draft->missing));
	if (!draft->targets || !draft->missing)
		return err_sys(err, -ENOMEM, "cannot list functions");
	for (size_t i = 0; i < found->missing_cnt; i++) {
		const struct resolve_req *req = &r->req[found->missing[i]];
		const struct preset_func *pf = r->preset[found->missing[i]];

		if (!pf || !pf->optional)
			draft->missing[draft->missing_cnt++] = pf ? req->name : req->func;
	}
	for (size_t i = 0; i < found->target_cnt; i++) {
		const struct resolve_target *rt = &found->targets[i];
		struct target *f = &draft->targets[draft->target_cnt++];

		f->found = rt;
		f->name = rt->name;
		f->symbol = rt->symbol;
		f->demangled = rt->demangled;
		f->object = rt->lib;
		f->offset = f->site_offset = rt->offset;
		f->refused = rt->refused;
		f->preset = r->preset[rt->req];
		code = f->refused ? 0 : func_plan(f, &planners, opts, err);
		if (code)
			return code;
		if (f->refused && !rt->from_pattern) {
			code = err_set(err, -EOPNOTSUPP, "cannot probe '%s' in %s: %s", f->name,
				f->object->path, f->refused);
			if (!forgive(draft, opts, code, err))
				return code;
		}
		func_slow(f, opts);
	}
	code = 0;
	for (size_t i = 0; !code && i < planners.cnt; i++)
		code = jumps_find(draft, planners.of[i].lib, planners.of[i].planner, err);
	return code;
}

static int draft_count(struct draft *draft, const struct draft_opts *opts, struct err *err)
{
	struct objects libs = {};
	int code;

	qsort(draft->targets, draft->target_cnt, sizeof(*draft->targets), compare_funcs);
	/* A plan's own reason has moved with it. */
	for (size_t i = 0; i < draft->target_cnt; i++)
		if (draft->targets[i].refused && draft->targets[i].plan.refused[0])
			draft->targets[i].refused = draft->targets[i].plan.refused;
	for (size_t i = 0; i < draft->target_cnt; i++) {
		struct target *f = &draft->targets[i];

		if (f->refused)
			break;
		draft->probed_cnt++;
		if (order_of(f) == 0)
			draft->timed_cnt++;
		code = objects_add(&libs, f->object, err);
		if (code) {
			objects_done(&libs);
			return code;
		}
		for (f->object_index = 0; libs.lib[f->object_index] != f->object;)
			f->object_index++;
	}
	draft->objects = libs.lib;
	draft->object_cnt = libs.cnt;
	if (draft->probed_cnt)
		return 0;
	if (draft->target_cnt)
		code = err_set(err, -EOPNOTSUPP, "no function can be probed: '%s': %s",
			draft->targets[0].name, draft->targets[0].refused);
	else
		code = err_set(err, -ENOENT, "no function of group '%s' was found", draft->name);
	return forgive(draft, opts, code, err) ? 0 : code;
}

/* The functions; to explain, also those of a group that fails. */
static int draft_resolve(struct draft *draft, const struct objects *libs, struct requests *r,
	const struct draft_opts *opts, struct err *err)
{
	int code;

	code = resolve_functions(
		draft->finder, libs->lib, libs->cnt, r->req, r->cnt, &draft->resolution, err);
	if (!code || !forgive(draft, opts, code, err))
		return code;
	for (size_t i = 0; i < r->cnt; i++)
		r->req[i].optional = true;
	return resolve_functions(
		draft->finder, libs->lib, libs->cnt, r->req, r->cnt, &draft->resolution, err);
}

int draft_new(const struct draft_opts *opts, struct draft **ret_draft, struct err *err)
{
	struct libfind_opts find = { .pids = opts->pids, .pid_cnt = opts->pid_cnt };
	__cleanup(requests_done) struct requests requests = {};
	_cleanup_draft_ struct draft *draft = calloc(1, sizeof(*draft));
	__cleanup(objects_done) struct objects libs = {};
	int code;

	if (!draft)
		return err_sys(err, -ENOMEM, "cannot list functions");
	snprintf(draft->name, sizeof(draft->name), "%s", opts->name);
	draft->keeps_args = opts->rules.keep_args;
	if (!opts->pid_cnt)
		find.pids = NULL;
	code = libfind_new(&find, &draft->finder, err);
	if (!code)
		code = find_libs(&libs, draft->finder, opts, err);
	if (!code)
		code = requests_make(&requests, draft->finder, opts, err);
	if (!code)
		code = draft_resolve(draft, &libs, &requests, opts, err);
	if (!code)
		code = draft_fill(draft, &requests, opts, err);
	if (!code)
		code = draft_count(draft, opts, err);
	if (!code)
		code = jumps_number(draft, err);
	if (!code)
		code = slow_check(draft, opts, err);
	for (size_t i = 0; !code && i < draft->target_cnt; i++)
		code = objects_add(&libs, draft->targets[i].object, err);
	for (size_t i = 0; !code && i < draft->object_cnt; i++)
		code = elf_file_check(draft->objects[i]->elf, err);
	if (code)
		return code;
	draft->looked = TAKE_PTR(libs.lib);
	draft->looked_cnt = libs.cnt;
	*ret_draft = TAKE_PTR(draft);
	return 0;
}

/* By its dearest end: a function that has a ret is left by that, as a rule. */
static enum price_end end_of(const struct target *f)
{
	const struct plan *plan = &f->plan;

	if ((plan->site_is_end && !f->forwards) || plan->exit == PLAN_EXIT_NONE)
		return PRICE_COUNT;
	if (plan->exit == PLAN_EXIT_RETURN)
		return PRICE_RETURN;
	for (size_t i = 0; i < plan->end_cnt; i++)
		if (plan->ends[i].kind == PLAN_END_RET)
			return PRICE_RET;
	return f->lost_jumps < plan->end_cnt ? PRICE_RET : PRICE_JUMP;
}

struct group_func target_shown(const struct target *f)
{
	static const enum fsn_exit exits[] = {
		[PLAN_EXIT_NONE] = FSN_EXIT_NONE,
		[PLAN_EXIT_RETURN] = FSN_EXIT_RETURN,
		[PLAN_EXIT_RET] = FSN_EXIT_RET,
	};

	return (struct group_func){
		.name = f->name,
		.symbol = f->symbol,
		.demangled = f->demangled,
		.library = f->object->path,
		.build_id = elf_file_info(f->object->elf)->build_id,
		.offset = f->offset,
		.site_offset = f->site_offset,
		.site_why = f->plan.site_why,
		.insn = f->plan.insn,
		.exit = f->plan.site_is_end && !f->forwards ? FSN_EXIT_SAME
							    : exits[f->plan.exit],
		.exit_why = f->plan.exit_why,
		.site = f->plan.site_emulated ? PRICE_EMULATED : PRICE_STEPPED,
		.end = end_of(f),
	};
}

const char *target_alias(const struct target *f, size_t ndx)
{
	const struct elf_func *func = f->found->func;

	for (uint32_t i = 0; func && !f->found->inside && i < func->name_cnt; i++) {
		const char *name = func->names[i].name;

		if (demangle_is_mangled(name) || strcmp(name, f->name) == 0 ||
			strcmp(name, f->symbol) == 0)
			continue;
		if (!ndx--)
			return name;
	}
	return NULL;
}

size_t draft_object_funcs(const struct draft *draft, const struct object *object)
{
	size_t cnt = 0;

	for (size_t i = 0; i < draft->probed_cnt; i++)
		cnt += draft->targets[i].object == object;
	return cnt;
}

void draft_free(struct draft *draft)
{
	if (!draft)
		return;
	jumps_done(draft);
	for (size_t i = 0; i < draft->target_cnt; i++)
		plan_done(&draft->targets[i].plan);
	free(draft->targets);
	free(draft->objects);
	free(draft->looked);
	free(draft->missing);
	resolution_free(draft->resolution);
	libfind_free(draft->finder);
	free(draft);
}

int draft_mappers(const struct draft *draft, size_t *ret_cnt, struct err *err)
{
	_cleanup_free_ struct mappers_file *files = calloc(draft->object_cnt + 1, sizeof(*files));
	pid_t pid;

	if (!files)
		return err_sys(err, -ENOMEM, "cannot look for processes");
	for (size_t i = 0; i < draft->object_cnt; i++) {
		const struct elf_info *info = elf_file_info(draft->objects[i]->elf);

		files[i] = (struct mappers_file) { info->dev, info->ino, draft->objects[i]->path };
	}
	return mappers_count("/proc", files, draft->object_cnt, ret_cnt, &pid, err);
}
