// SPDX-License-Identifier: BSD-2-Clause
// Choosing the functions of a group and planning their probes.
#include <errno.h>
#include <string.h>

#include "pattern.h"
#include "safe.h"
#include "suggest.h"
#include "target.h"

/* --- which functions ------------------------------------------------------------------------ */

struct requests {
	struct resolve_req *req;
	const struct preset_func **preset; /* beside it, NULL for a plain FUNCTION */
	const struct lib_file ***own_libs; /* arrays that requests point to */
	size_t cnt, own_cnt;
};

static void requests_done(struct requests *r)
{
	for (size_t i = 0; i < r->own_cnt; i++)
		free(r->own_libs[i]);
	free(r->own_libs);
	free(r->req);
	free(r->preset);
}

static int request_add(struct requests *r, const struct resolve_req *req,
	const struct preset_func *preset, struct err *err)
{
	const struct preset_func **presets;
	struct resolve_req *reqs;

	reqs = array_grow(r->req, r->cnt, sizeof(*reqs));
	if (reqs)
		r->req = reqs;
	presets = array_grow(r->preset, r->cnt, sizeof(*presets));
	if (presets)
		r->preset = presets;
	if (!reqs || !presets)
		return err_sys(err, -ENOMEM, "cannot list functions");
	r->req[r->cnt] = *req;
	r->preset[r->cnt++] = preset;
	return 0;
}

/* The libraries that a preset names for one function, as far as they are there. */
static int own_libs(struct requests *r, struct libfind *finder, const struct preset_func *pf,
	struct resolve_req *req, struct err *err)
{
	const struct lib_file **all = NULL, **some, **more;
	size_t cnt = 0, some_cnt;
	int code = 0;

	for (size_t i = 0; i < pf->lib_cnt; i++) {
		code = libfind_get(finder, pf->libs[i], &some, &some_cnt, err);
		if (code == -ENOENT && req->optional)
			continue;
		if (code)
			break;
		more = reallocarray(all, cnt + some_cnt + 1, sizeof(*all));
		if (more) {
			all = more;
			memcpy(all + cnt, some, some_cnt * sizeof(*all));
			cnt += some_cnt;
		}
		free(some);
		if (!more) {
			code = err_sys(err, -ENOMEM, "cannot list libraries");
			break;
		}
	}
	if (code && !(code == -ENOENT && req->optional)) {
		free(all);
		return code;
	}
	more = NULL;
	const struct lib_file ***owned =
		reallocarray(r->own_libs, r->own_cnt + 1, sizeof(*owned));
	if (!owned) {
		free(all);
		return err_sys(err, -ENOMEM, "cannot list libraries");
	}
	r->own_libs = owned;
	r->own_libs[r->own_cnt++] = all;
	req->libs = all;
	req->lib_cnt = cnt;
	return 0;
}

/* Asks for one function of a preset. One whose own library is not there is left out. */
static int request_preset(struct requests *r, struct libfind *finder,
	const struct target_opts *opts, const struct preset_func *pf, struct err *err)
{
	struct resolve_req req = {
		.func = pf->symbol,
		.name = pf->name,
		.literal = true,
		.optional = opts->lenient || pf->optional,
	};
	int code;

	if (pf->lib_cnt && !opts->lib_cnt) {
		code = own_libs(r, finder, pf, &req, err);
		if (code)
			return code;
		if (!req.lib_cnt)
			return 0;
	}
	return request_add(r, &req, pf, err);
}

/* The functions of the preset that one FUNCTION argument means. */
static int choose_preset(struct requests *r, struct libfind *finder,
	const struct target_opts *opts, const char *text, struct err *err)
{
	const struct preset_group *group = opts->preset;
	_cleanup_pattern_ struct pattern pattern = {};
	size_t before = r->cnt;
	struct suggest near;
	char hint[ERR_HINT_LEN];
	int code;

	code = pattern_init(&pattern, opts->regex ? PATTERN_REGEX : PATTERN_GLOB, text, err);
	if (code)
		return code;
	suggest_init(&near, text);
	for (size_t i = 0; i < group->func_cnt; i++) {
		const struct preset_func *pf = &group->funcs[i];

		suggest_offer(&near, pf->name, NULL);
		if (!pattern_match(&pattern, pf->name) && !pattern_match(&pattern, pf->symbol))
			continue;
		code = request_preset(r, finder, opts, pf, err);
		if (code)
			return code;
		if (!opts->regex && !pattern_is_glob(text) && r->cnt > before)
			r->req[r->cnt - 1].optional = false;
	}
	if (r->cnt > before)
		return 0;
	err_set(err, -ENOENT, "no function '%s' in preset %s", text, group->name);
	if (suggest_text(&near, hint, sizeof(hint)))
		err_hint(err, "%s", hint);
	return -ENOENT;
}

static int requests_make(struct requests *r, struct libfind *finder,
	const struct target_opts *opts, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < opts->function_cnt; i++) {
		struct resolve_req req = { .func = opts->functions[i], .regex = opts->regex };

		code = opts->preset ? choose_preset(r, finder, opts, opts->functions[i], err) :
				      request_add(r, &req, NULL, err);
	}
	if (opts->preset && !opts->function_cnt)
		for (size_t i = 0; !code && i < opts->preset->func_cnt; i++)
			code = request_preset(r, finder, opts, &opts->preset->funcs[i], err);
	return code;
}

/* --- in which libraries --------------------------------------------------------------------- */

struct libs {
	const struct lib_file **lib;
	size_t cnt;
};

static void libs_done(struct libs *l)
{
	free(l->lib);
}

static int libs_add(struct libs *l, const struct lib_file *lib, struct err *err)
{
	const struct lib_file **more;

	for (size_t i = 0; i < l->cnt; i++)
		if (l->lib[i] == lib)
			return 0;
	more = reallocarray(l->lib, l->cnt + 1, sizeof(*more));
	if (!more)
		return err_sys(err, -ENOMEM, "cannot list libraries");
	l->lib = more;
	l->lib[l->cnt++] = lib;
	return 0;
}

/* Those of --lib, all of which must be found; or those of the preset, one of which must. */
static int libs_find(struct libs *l, struct libfind *finder, const struct target_opts *opts,
	struct err *err)
{
	const struct preset_group *preset = opts->preset;
	bool given = opts->lib_cnt, lenient = !given && opts->lenient;
	const char *const *names = given ? opts->libs : preset ? preset->libs : NULL;
	size_t name_cnt = given ? opts->lib_cnt : preset ? preset->lib_cnt : 0, cnt;
	const struct lib_file **found;
	int code = 0;

	for (size_t i = 0; i < name_cnt; i++) {
		code = libfind_get(finder, names[i], &found, &cnt, err);
		if (code == -ENOENT && lenient && (l->cnt || i + 1 < name_cnt))
			continue;
		if (code)
			return code;
		for (size_t k = 0; !code && k < cnt; k++)
			code = libs_add(l, found[k], err);
		free(found);
		if (code)
			return code;
	}
	return 0;
}

/* --- plans ---------------------------------------------------------------------------------- */

#ifdef __aarch64__
#define HOST_ARCH PLAN_ARM64
#else
#define HOST_ARCH PLAN_X86_64
#endif

/* One planner for each file. */
struct planned {
	const struct lib_file *lib;
	struct planner *planner;
	const char *return_why;
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

static int planner_of(struct planners *p, const struct lib_file *lib,
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

static int func_plan(struct target_func *f, struct planners *planners,
	const struct target_opts *opts, struct err *err)
{
	const struct resolve_target *found = f->found;
	struct planned *planned = NULL;
	struct plan_request req = {
		.name = found->symbol,
		.addr = found->addr,
		.size = found->func && !found->inside ? found->func->size : 0,
	};
	int code;

	code = planner_of(planners, f->lib, &opts->rules, &planned, err);
	if (code)
		return code;
	req.return_why = f->preset && f->preset->nothrow_why ? f->preset->nothrow_why :
							       planned->return_why;
	code = planner_plan(planned->planner, &req, &f->plan, err);
	if (code)
		return code;
	if (f->plan.refused[0]) {
		f->refused = f->plan.refused;
		return 0;
	}
	if (elf_file_addr_to_offset(f->lib->elf, f->plan.site, &f->site_offset))
		return err_set(err, -ERANGE, "probe site of '%s' lies outside the file",
			f->name);
	return 0;
}

/* The last --slow that names the function, else its own from a configuration. */
static void func_slow(struct target_func *f, const struct target_opts *opts)
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
static int slow_check(const struct target *t, const struct target_opts *opts, struct err *err)
{
	for (size_t i = 0; i < opts->slow_cnt; i++) {
		size_t k = 0;

		while (opts->slow[i].func && k < t->func_cnt &&
			!pattern_glob(opts->slow[i].func, t->funcs[k].name))
			k++;
		if (opts->slow[i].func && k == t->func_cnt)
			return err_set(err, -ENOENT, "--slow: no function '%s' in the group",
				opts->slow[i].func);
	}
	return 0;
}

/* --- the target ----------------------------------------------------------------------------- */

static int order_of(const struct target_func *f)
{
	return f->refused ? 2 : f->plan.exit == PLAN_EXIT_NONE || f->plan.site_is_end;
}

static int compare_funcs(const void *a, const void *b)
{
	const struct target_func *x = a, *y = b;
	int order = order_of(x) - order_of(y);

	if (!order)
		order = strcmp(x->name, y->name);
	if (!order)
		order = strcmp(x->lib->path, y->lib->path);
	return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

static int target_fill(struct target *t, const struct requests *r,
	const struct target_opts *opts, struct err *err)
{
	__cleanup(planners_done) struct planners planners = {};
	const struct resolution *found = t->resolution;
	int code;

	t->funcs = calloc(found->target_cnt + 1, sizeof(*t->funcs));
	t->missing = calloc(found->missing_cnt + 1, sizeof(*t->missing));
	if (!t->funcs || !t->missing)
		return err_sys(err, -ENOMEM, "cannot list functions");
	for (size_t i = 0; i < found->missing_cnt; i++)
		if (!r->preset[found->missing[i]]->optional)
			t->missing[t->missing_cnt++] = r->req[found->missing[i]].name;
	for (size_t i = 0; i < found->target_cnt; i++) {
		const struct resolve_target *rt = &found->targets[i];
		struct target_func *f = &t->funcs[t->func_cnt++];

		f->found = rt;
		f->name = rt->name;
		f->symbol = rt->symbol;
		f->demangled = rt->demangled;
		f->lib = rt->lib;
		f->offset = f->site_offset = rt->offset;
		f->refused = rt->refused;
		f->preset = r->preset[rt->req];
		code = f->refused ? 0 : func_plan(f, &planners, opts, err);
		if (code)
			return code;
		if (f->refused && !rt->from_pattern)
			return err_set(err, -EOPNOTSUPP, "cannot probe '%s' in %s: %s", f->name,
				f->lib->path, f->refused);
		func_slow(f, opts);
	}
	return 0;
}

static int target_count(struct target *t, struct err *err)
{
	struct libs libs = {};
	int code;

	qsort(t->funcs, t->func_cnt, sizeof(*t->funcs), compare_funcs);
	/* A plan's own reason has moved with it. */
	for (size_t i = 0; i < t->func_cnt; i++)
		if (t->funcs[i].refused && t->funcs[i].plan.refused[0])
			t->funcs[i].refused = t->funcs[i].plan.refused;
	for (size_t i = 0; i < t->func_cnt; i++) {
		struct target_func *f = &t->funcs[i];

		if (f->refused)
			break;
		t->probed_cnt++;
		if (order_of(f) == 0)
			t->timed_cnt++;
		code = libs_add(&libs, f->lib, err);
		if (code) {
			libs_done(&libs);
			return code;
		}
		for (f->lib_index = 0; libs.lib[f->lib_index] != f->lib;)
			f->lib_index++;
	}
	t->libs = libs.lib;
	t->lib_cnt = libs.cnt;
	if (t->probed_cnt)
		return 0;
	if (t->func_cnt)
		return err_set(err, -EOPNOTSUPP, "no function can be probed: '%s': %s",
			t->funcs[0].name, t->funcs[0].refused);
	return err_set(err, -ENOENT, "no function of group '%s' was found", t->name);
}

int target_new(const struct target_opts *opts, struct target **ret_target, struct err *err)
{
	struct libfind_opts find = { .pids = opts->pids, .pid_cnt = opts->pid_cnt };
	__cleanup(requests_done) struct requests requests = {};
	_cleanup_target_ struct target *t = calloc(1, sizeof(*t));
	__cleanup(libs_done) struct libs libs = {};
	int code;

	if (!t)
		return err_sys(err, -ENOMEM, "cannot list functions");
	snprintf(t->name, sizeof(t->name), "%s", opts->name);
	if (!opts->pid_cnt)
		find.pids = NULL;
	code = libfind_new(&find, &t->finder, err);
	if (!code)
		code = libs_find(&libs, t->finder, opts, err);
	if (!code)
		code = requests_make(&requests, t->finder, opts, err);
	if (!code)
		code = resolve_functions(t->finder, libs.lib, libs.cnt, requests.req,
			requests.cnt, &t->resolution, err);
	if (!code)
		code = target_fill(t, &requests, opts, err);
	if (!code)
		code = target_count(t, err);
	if (!code)
		code = slow_check(t, opts, err);
	if (code)
		return code;
	*ret_target = TAKE_PTR(t);
	return 0;
}

struct group_func target_func_shown(const struct target_func *f)
{
	static const enum group_exit exits[] = {
		[PLAN_EXIT_NONE] = GROUP_EXIT_NONE,
		[PLAN_EXIT_RETURN] = GROUP_EXIT_RETURN,
		[PLAN_EXIT_RET] = GROUP_EXIT_RET,
	};

	return (struct group_func){
		.name = f->name,
		.symbol = f->symbol,
		.demangled = f->demangled,
		.library = f->lib->path,
		.build_id = elf_file_info(f->lib->elf)->build_id,
		.offset = f->offset,
		.site_offset = f->site_offset,
		.site_why = f->plan.site_why,
		.insn = f->plan.insn,
		.exit = f->plan.site_is_end ? GROUP_EXIT_SAME : exits[f->plan.exit],
		.exit_why = f->plan.exit_why,
	};
}

void target_free(struct target *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->func_cnt; i++)
		plan_done(&t->funcs[i].plan);
	free(t->funcs);
	free(t->libs);
	free(t->missing);
	resolution_free(t->resolution);
	libfind_free(t->finder);
	free(t);
}
