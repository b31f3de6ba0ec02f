// SPDX-License-Identifier: BSD-2-Clause
// Drafts a group: requests, found targets and their plans.
#include <limits.h>

#include "base/text.h"
#include "base/util.h"
#include "elf/elf_file.h"
#include "internal.h"
#include "kernel/trace.h"
#include "proc/proc.h"
#include "target/kind.h"
#include "target/types.h"

/* Notation of other tracers that is not a LIB:func: the hint is the line to type instead. */

/* "profile:hz:99": the number is the rate. */
static int hint_rate(const char *func, struct err *err)
{
	const char *last = strrchr(func, ':');
	int rate = last ? atoi(last + 1) : 0;

	return err_hint(err, "run 'funcsnoop run cpu --sample %dhz'", rate > 0 ? rate : 99);
}

/* "syscalls:sys_enter_read" */
static bool hint_syscall(const char *event, struct err *err)
{
	static const char *const heads[] = { "sys_enter_", "sys_exit_" };

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		size_t len = strlen(heads[i]);

		if (strncmp(event, heads[i], len) != 0 || syscall_number(event + len) < 0)
			continue;
		err_hint(err, "did you mean 's:%s'", event + len);
		return true;
	}
	return false;
}

static bool is_tracepoint(const char *category, const char *event)
{
	_cleanup_trace_event_ struct trace_event e = {};
	_cleanup_close_ int tracefs = tracefs_open(NULL);

	return tracefs >= 0 && !tracefs_event(tracefs, category, event, &e, NULL);
}

/* bcc's "funccount c:malloc 10" */
static bool hint_duration(const char *func, struct err *err)
{
	if (!*func || func[strspn(func, "0123456789")])
		return false;
	err_hint(err, "a duration is an option of 'funcsnoop run': -d %s", func);
	return true;
}

static bool is_of_kernel(const char *name)
{
	struct kfuncs *k = NULL;
	size_t cnt = 0, i = 0;
	const struct kfunc *funcs;

	if (kfuncs_open(&k, NULL))
		return false;
	for (funcs = kfuncs_all(k, &cnt); i < cnt && strcmp(funcs[i].name, name); i++)
		;
	kfuncs_free(k);
	return i < cnt;
}

static bool hint_of(const char *func, struct err *err)
{
	static const char *const words[] = { "p", "r", "u", "uprobe", "uretprobe", "usdt" };
	const char *colon = strchr(func, ':'), *name = colon ? colon + 1 : NULL;
	char head[64];

	if (!colon || (size_t)(colon - func) >= sizeof(head))
		return false;
	memcpy(head, func, colon - func);
	head[colon - func] = '\0';
	if (!strcmp(head, "profile")) {
		hint_rate(func, err);
		return true;
	}
	/* bcc's "p::vfs_read" and "p:vfs_read" */
	if ((!strcmp(head, "p") || !strcmp(head, "r")) && (*name == ':' || is_of_kernel(name))) {
		err_hint(err, "did you mean 'k:%s'", name + (*name == ':'));
		return true;
	}
	if (!strcmp(head, "syscalls") && hint_syscall(name, err))
		return true;
	if (is_tracepoint(head, name)) {
		err_hint(err, "did you mean 't:%s:%s'", head, name);
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcmp(head, words[i])) {
			err_hint(err, "name its library: '%s:LIB:%s'", head, name);
			return true;
		}
	return false;
}

void requests_hint_notation(
	const struct request *const *reqs, size_t req_cnt, bool lacks, struct err *err)
{
	for (size_t i = 0; err && i < req_cnt; i++)
		if (!reqs[i]->literal && (hint_duration(reqs[i]->func, err) ||
						 (lacks && hint_of(reqs[i]->func, err))))
			return;
}

/* --- libraries ------------------------------------------------------------------------------ */

/* Adds the libraries that @names mean; errors as of libfind_get(). */
static int libs_find(struct objects *libs, struct libfind *finder, const char *const *names,
	size_t cnt, enum libs_needed needed, struct err *err)
{
	for (size_t i = 0; i < cnt; i++) {
		__cleanup(objects_done) struct objects found = {};
		bool last = i + 1 == cnt;
		int code;

		code = libfind_get(finder, names[i], &found, err);
		if (code == -ENOENT && (needed == LIBS_ANY ||
					       (needed == LIBS_ONE && (libs->cnt || !last)))) {
			libfind_forgive(finder);
			continue;
		}
		if (code)
			return code;
		for (size_t k = 0; k < found.cnt; k++)
			objects_add(libs, found.object[k]);
	}
	return 0;
}

/* Limit of compared names; a program that calls a library has a few of its names. */
#define NAMES_MAX 4096

/*
 * Reads the path of a process's program, in the process's mount namespace. Returns the result of
 * readlink(2).
 */
static ssize_t program_path(pid_t pid, char *buf, size_t size)
{
	char link[64];
	ssize_t len;

	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	len = readlink(link, buf, size - 1);
	if (len > 0)
		buf[len] = '\0';
	return len;
}

static bool defines_one(const struct object *file, const struct preset_group *preset)
{
	const struct elf_func *funcs;
	size_t cnt;

	if (elf_file_funcs(file->elf, &funcs, &cnt, NULL))
		return false;
	for (size_t i = 0; i < preset->func_cnt && i < NAMES_MAX; i++) {
		const char *symbol = preset->funcs[i].symbol;

		if (elf_file_lookup(file->elf, symbol, strlen(symbol)))
			return true;
	}
	return false;
}

/*
 * If the libraries of a preset were not found: sets the hint of @err to the program of @opts'
 * processes that has them linked in.
 */
static void requests_hint_static(
	struct libfind *finder, const struct draft_opts *opts, struct err *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; opts->preset && i < opts->pid_cnt; i++) {
		__cleanup(objects_done) struct objects found = {};

		if (program_path(opts->pids[i], path, sizeof(path)) <= 0 ||
			libfind_get(finder, path, &found, NULL) ||
			!defines_one(found.object[0], opts->preset))
			continue;
		err_hint(err, "the program has it linked in: --lib %s", path);
		return;
	}
}

/* --- functions ------------------------------------------------------------------------------ */

static void requests_done(struct requests *r)
{
	for (size_t i = 0; i < r->own_cnt; i++) {
		objects_done(r->own[i]);
		free(r->own[i]);
	}
	free(r->own);
	free(r->req);
}

/* Libraries for one request; they live as long as the requests. */
static struct objects *own_libs(struct requests *r)
{
	struct objects *libs = xcalloc(1, sizeof(*libs));

	return *array_add(r->own, r->own_cnt) = libs;
}

/* Requests one function of a preset. A function whose own library is missing is skipped. */
static int request_preset(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, const struct preset_func *pf, struct err *err)
{
	struct request req = {
		.func = pf->symbol,
		.name = pf->name,
		.literal = !pf->is_target,
		.optional = opts->lenient || pf->optional,
		.known = pf,
	};
	struct objects *libs;
	int code;

	if (!pf->lib_cnt || opts->lib_cnt) {
		*array_add(r->req, r->cnt) = req;
		return 0;
	}
	libs = own_libs(r);
	code = libs_find(libs, finder, pf->libs, pf->lib_cnt, req.optional ? LIBS_ANY : LIBS_ALL,
		err);
	if (code || !libs->cnt)
		return code;
	req.objects = libs;
	*array_add(r->req, r->cnt) = req;
	return 0;
}

/* Requests the functions of the preset that match one FUNCTION argument. */
static int choose_preset(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, const char *text, struct err *err)
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

/*
 * Requests functions that launch GPU kernels if GPU kernels are requested; they have no name of a
 * user.
 */
static void request_launches(struct requests *r)
{
	static const struct request launches = { .func = "gpu:" TARGET_GPU_LAUNCHES };

	for (size_t i = 0; i < r->cnt; i++)
		if (!r->req[i].literal && gpu_asks_kernels(r->req[i].func)) {
			*array_add(r->req, r->cnt) = launches;
			return;
		}
}

/* Requests NVTX ranges, if they are a key, unless the user has. */
static void request_ranges(struct requests *r)
{
	static const struct request ranges = { .func = "gpu:" TARGET_GPU_RANGES, .implied = true };

	for (size_t i = 0; i < r->cnt; i++)
		if (!r->req[i].literal && !strcmp(r->req[i].func, ranges.func))
			return;
	*array_add(r->req, r->cnt) = ranges;
}

/*
 * Makes the requests of @opts: its FUNCTIONs, the functions of the preset that they select, or the
 * complete preset. Returns -ENOENT if a FUNCTION is not in the preset. The caller empties @r with
 * requests_done().
 */
static int requests_make(struct requests *r, struct libfind *finder,
	const struct draft_opts *opts, struct err *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < opts->function_cnt; i++) {
		struct request req = { .func = opts->functions[i], .regex = opts->regex };

		if (opts->preset)
			code = choose_preset(r, finder, opts, opts->functions[i], err);
		else
			*array_add(r->req, r->cnt) = req;
	}
	if (opts->preset && !opts->function_cnt)
		for (size_t i = 0; !code && i < opts->preset->func_cnt; i++)
			code = request_preset(r, finder, opts, &opts->preset->funcs[i], err);
	if (!code && opts->launches)
		request_launches(r);
	if (!code && opts->ranges)
		request_ranges(r);
	return code;
}

/* --- libraries to search -------------------------------------------------------------------- */

/*
 * Finds the libraries of --lib, all of which must exist, or those of the preset, one of which must.
 */
static int find_libs(struct objects *l, struct libfind *finder, const struct draft_opts *opts,
	struct err *err)
{
	const struct preset_group *preset = opts->preset;
	int code;

	if (opts->lib_cnt)
		return libs_find(l, finder, opts->libs, opts->lib_cnt, LIBS_ALL, err);
	if (!preset)
		return 0;
	code = libs_find(l, finder, preset->libs, preset->lib_cnt,
		opts->lenient ? LIBS_ONE : LIBS_ALL, err);
	if (code == -ENOENT && !opts->ret_lacks) /* run waits for such a library */
		requests_hint_static(finder, opts, err);
	return code;
}

/* True if @func is in a file and does not name it. */
static bool lacks_file(const char *func)
{
	size_t len;

	return target_kind_of(func)->in_files && !function_lib(func, &len);
}

static bool some_lack_file(const struct draft_opts *opts)
{
	for (size_t i = 0; !opts->preset && !opts->lib_cnt && i < opts->function_cnt; i++)
		if (lacks_file(opts->functions[i]))
			return true;
	return false;
}

static bool defines(const struct objects *files, const char *func)
{
	return ANY_WHERE(files->cnt, i,
		elf_file_lookup(files->object[i]->elf, func, strlen(func)));
}

/* Changes names of system calls to s:NAME, unless a file that was searched defines the function. */
static void names_to_syscalls(struct draft *draft)
{
	char text[64];

	for (size_t i = 0; i < draft->requests.cnt; i++) {
		struct request *req = &draft->requests.req[i];

		if (!lacks_file(req->func) || syscall_number(req->func) < 0 ||
			defines(&draft->looked, req->func))
			continue;
		snprintf(text, sizeof(text), "s:%s", req->func);
		req->func = targets_text(&draft->found, text);
	}
}

/* Adds the programs of the processes, or the program to be run; with @all also their libraries. */
static void add_programs(struct objects *l, struct libfind *finder, const struct draft_opts *opts,
	bool all)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < opts->pid_cnt + (opts->program != NULL); i++) {
		__cleanup(objects_done) struct objects found = {};

		if (i < opts->pid_cnt && program_path(opts->pids[i], path, sizeof(path)) <= 0)
			continue;
		if (libfind_get(finder, i < opts->pid_cnt ? path : opts->program, &found, NULL))
			libfind_forgive(finder);
		for (size_t k = 0; k < found.cnt; k++)
			objects_add(l, found.object[k]);
	}
	if (all && opts->pid_cnt)
		libfind_add_mapped(finder, l);
	else if (all)
		libfind_closure(finder, l);
}

/*
 * Sets the threshold: of the last --slow that matches the function, otherwise that of the
 * configuration.
 */
static void set_slow(struct target *t, const struct draft_opts *opts)
{
	if (t->known && t->known->has_slow) {
		t->has_slow = true;
		t->slow_ns = t->known->slow_ns;
	}
	for (int named = 0; named <= 1; named++)
		for (size_t i = 0; i < opts->slow_cnt; i++) {
			const char *func = opts->slow[i].func;

			if (!func != !named || (func && !pattern_glob(func, t->name)))
				continue;
			t->has_slow = true;
			t->slow_ns = opts->slow[i].ns;
		}
}

/* Fails if a --slow FUNCTION=DUR matches no function. */
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

static int order_of(const struct target *t)
{
	if (t->refused)
		return 2;
	return t->plan.exit == PLAN_EXIT_NONE || (t->plan.site_is_end && !t->forwards);
}

/* Lines are in the order of their numbers. */
DEFINE_ORDER(compare_targets, struct target,
	order_of(x) - order_of(y) ?: strverscmp(x->name, y->name) ?:
		strcmp(x->object->path, y->object->path) ?: RISING(offset))

/* True if drafting continues after this error, which is reported; the first one is kept. */
static bool forgive(
	struct draft *draft, const struct draft_opts *opts, int code, const struct err *err)
{
	if (!opts->explain || (code != -ENOENT && code != -EOPNOTSUPP))
		return false;
	if (!draft->failure.code)
		draft->failure = *err;
	return true;
}

/* --- the targets ---------------------------------------------------------------------------- */

/* Names in presets and configuration files are symbols without a kind prefix. */
static const struct target_kind *kind_of(const struct request *req)
{
	return target_kind_of(req->literal ? "" : req->func);
}

/* Finds the targets of all kinds, in the order of kinds. */
static int draft_find(struct draft *draft, const struct objects *objects, struct err *err)
{
	const struct requests *r = &draft->requests;
	_cleanup_free_ const struct request **reqs = xcalloc(r->cnt + 1, sizeof(*reqs));
	int code = 0;

	targets_cut(&draft->found, 0);
	for (size_t k = 0; !code && k < TARGET_CNT; k++) {
		const struct target_kind *kind = target_kinds[k];
		size_t cnt = 0, first = draft->found.cnt;

		for (size_t i = 0; i < r->cnt; i++)
			if (kind_of(&r->req[i]) == kind)
				reqs[cnt++] = &r->req[i];
		code = target_kind_find(
			kind, draft->finder, objects, reqs, cnt, &draft->found, err);
		for (size_t i = first; !code && i < draft->found.cnt; i++)
			draft->found.target[i].kind = kind;
	}
	return code;
}

/* With .explain, also resolves the targets of a group that fails. */
static int draft_resolve(struct draft *draft, const struct objects *objects,
	const struct draft_opts *opts, struct err *err)
{
	int code = draft_find(draft, objects, err);

	if (!code || !forgive(draft, opts, code, err))
		return code;
	for (size_t i = 0; i < draft->requests.cnt; i++)
		draft->requests.req[i].optional = true;
	return draft_find(draft, objects, err);
}

static int draft_plan(struct draft *draft, const struct draft_opts *opts, struct err *err)
{
	struct targets *found = &draft->found;
	int code = 0;

	draft->targets = found->target;
	draft->target_cnt = found->cnt;
	for (size_t i = 0, end; !code && i < found->cnt; i = end) {
		const struct target_kind *kind = found->target[i].kind;

		for (end = i + 1; end < found->cnt && found->target[end].kind == kind;)
			end++;
		code = kind->plan(draft, i, end - i, &opts->rules, err);
	}
	for (size_t i = 0; !code && i < found->cnt; i++) {
		struct target *t = &found->target[i];

		if (t->refused && !t->from_pattern && t->limit != LIMIT_LEFT_OUT) {
			code = err_set(err, -EOPNOTSUPP, "cannot probe '%s' in %s: %s", t->name,
				t->object->path, t->refused);
			if (t->kind->instead)
				err_hint(err, "%s", t->kind->instead);
			if (forgive(draft, opts, code, err))
				code = 0;
		}
		set_slow(t, opts);
	}
	return code;
}

/* Lists names that no library has, except optional ones of a preset. */
static void list_missing(struct draft *draft)
{
	const struct targets *found = &draft->found;

	draft->missing = xcalloc(found->missing_cnt + 1, sizeof(*draft->missing));
	for (size_t i = 0; i < found->missing_cnt; i++) {
		const struct request *req = found->missing[i];

		if (!req->known || !req->known->optional)
			draft->missing[draft->missing_cnt++] =
				req->known ? req->name : req->func;
	}
}

static int draft_count(struct draft *draft, const struct draft_opts *opts, struct err *err)
{
	int code;

	if (draft->target_cnt)
		qsort(draft->targets, draft->target_cnt, sizeof(*draft->targets), compare_targets);
	/* A plan's own reason has moved with it. */
	for (size_t i = 0; i < draft->target_cnt; i++)
		if (draft->targets[i].refused && draft->targets[i].plan.refused[0])
			draft->targets[i].refused = draft->targets[i].plan.refused;
	for (size_t i = 0; i < draft->target_cnt; i++) {
		struct target *t = &draft->targets[i];

		if (t->refused)
			break;
		draft->probed_cnt++;
		if (order_of(t) == 0)
			draft->timed_cnt++;
		objects_add(&draft->objects, t->object);
		if (t->until)
			objects_add(&draft->objects, t->until->object);
		t->object_index = objects_find(&draft->objects, t->object);
	}
	if (draft->probed_cnt)
		return 0;
	if (draft->target_cnt)
		code = err_set(err, -EOPNOTSUPP, "no %s can be probed: '%s': %s",
			draft->targets[0].kind->noun, draft->targets[0].name,
			draft->targets[0].refused);
	else
		code = err_set(
			err, -ENOENT, "no function of group '%s' was found", draft->name);
	return forgive(draft, opts, code, err) ? 0 : code;
}

int draft_new(const struct draft_opts *opts, struct draft **ret_draft, struct err *err)
{
	struct libfind_opts find = {
		.pids = opts->pids,
		.pid_cnt = opts->pid_cnt,
		.program = opts->program,
		.procs = opts->procs,
	};
	_cleanup_draft_ struct draft *draft = xcalloc(1, sizeof(*draft));
	bool no_files; /* some function does not name its file */
	int code;

	snprintf(draft->name, sizeof(draft->name), "%s", opts->name);
	draft->keeps_args = opts->rules.keep_args;
	draft->duty = opts->duty ? opts->duty : 1;
	draft->launches = opts->launches;
	draft->pids = opts->pids;
	draft->from_preset = opts->preset;
	draft->pid_cnt = opts->pid_cnt;
	draft->program = opts->program;
	if (!opts->pid_cnt)
		find.pids = NULL;
	draft->finder = libfind_new(&find);
	code = find_libs(&draft->looked, draft->finder, opts, err);
	no_files = !code && some_lack_file(opts);
	if (no_files)
		add_programs(&draft->looked, draft->finder, opts, false);
	if (!code)
		code = requests_make(&draft->requests, draft->finder, opts, err);
	if (!code)
		code = draft_resolve(draft, &draft->looked, opts, err);
	if (code == -ENOENT && no_files && draft->looked.cnt) {
		names_to_syscalls(draft);
		add_programs(&draft->looked, draft->finder, opts, true);
		code = draft_resolve(draft, &draft->looked, opts, err);
	}
	if (!code) {
		types_of_files(&draft->found, opts->rules.keep_args);
		list_missing(draft);
		code = draft_plan(draft, opts, err);
	}
	if (!code)
		code = draft_count(draft, opts, err);
	if (!code)
		jumps_number(draft);
	if (!code)
		code = slow_check(draft, opts, err);
	for (size_t i = 0; !code && i < draft->target_cnt; i++)
		objects_add(&draft->looked, draft->targets[i].object);
	for (size_t i = 0; !code && i < draft->objects.cnt; i++)
		code = object_check(draft->objects.object[i], err);
	if (opts->ret_lacks)
		*opts->ret_lacks = code == -ENOENT && libfind_lacks(draft->finder);
	if (!code)
		*ret_draft = TAKE_PTR(draft);
	return code;
}

int draft_limit(struct draft *draft, const struct draft_opts *opts, struct err *err)
{
	struct draft_opts limited = *opts;
	int code;

	/* Targets of tail calls may be functions that were left out, or called as often. */
	limited.rules.leave_jumps = true;

	jumps_done(draft);
	draft->jumps = NULL;
	draft->jumps_cnt = 0;
	objects_done(&draft->objects);
	draft->objects = (struct objects) {};
	draft->probed_cnt = draft->timed_cnt = 0;
	for (size_t i = 0; i < draft->target_cnt; i++) {
		plan_done(&draft->targets[i].plan);
		draft->targets[i].plan = (struct plan) {};
	}
	code = draft_plan(draft, &limited, err);
	if (!code)
		code = draft_count(draft, &limited, err);
	if (!code)
		jumps_number(draft);
	return code;
}

const char *target_alias(const struct target *t, size_t ndx)
{
	const struct elf_func *func = t->func;

	for (uint32_t i = 0; func && !t->inside && i < func->name_cnt; i++) {
		const char *name = func->names[i].name;

		if (demangle_is_mangled(name) || strcmp(name, t->name) == 0 ||
			strcmp(name, t->symbol) == 0)
			continue;
		if (!ndx--)
			return name;
	}
	return NULL;
}

char *target_typed(const struct target *t)
{
	const char *where = t->kind->in_files ? t->object->path : t->kind->prefix;
	bool both = !t->kind->in_files && object_file(t->object); /* u:LIB:PROBE */

	return both ? xasprintf("%s:%s:%s", where, t->object->path, t->name)
		    : xasprintf("%s:%s", where, t->name);
}

size_t draft_object_funcs(const struct draft *draft, const struct object *object)
{
	return COUNT_WHERE(draft->probed_cnt, i, draft->targets[i].object == object);
}

void draft_free(struct draft *draft)
{
	if (!draft)
		return;
	jumps_done(draft);
	free(draft->missing);
	targets_done(&draft->found);
	requests_done(&draft->requests);
	objects_done(&draft->objects);
	objects_done(&draft->looked);
	libfind_free(draft->finder);
	hazards_free(draft->hazards);
	free(draft);
}

bool draft_has_files(const struct draft *draft)
{
	return ANY_WHERE(draft->objects.cnt, i, object_file(draft->objects.object[i]));
}

size_t draft_events(const struct draft *draft)
{
	return COUNT_WHERE(draft->probed_cnt, i,
		i >= draft->timed_cnt && draft->targets[i].kind->is_event);
}

size_t draft_kind_cnt(const struct draft *draft, const struct target_kind *kind)
{
	return COUNT_WHERE(draft->probed_cnt, i, draft->targets[i].kind == kind);
}

struct mappers_file *draft_files(const struct draft *draft, size_t *ret_cnt)
{
	struct mappers_file *files = xcalloc(draft->objects.cnt + 1, sizeof(*files));
	size_t cnt = 0;

	for (size_t i = 0; i < draft->objects.cnt; i++) {
		const struct object *object = draft->objects.object[i];
		const struct elf_info *info = object_file(object);

		if (info)
			files[cnt++] = (struct mappers_file) { info->dev, info->ino,
				object->path };
	}
	*ret_cnt = cnt;
	return files;
}

int draft_mappers(const struct draft *draft, size_t *ret_cnt, struct err *err)
{
	size_t cnt = 0;
	_cleanup_free_ struct mappers_file *files = draft_files(draft, &cnt);
	pid_t pid;

	return mappers_count(libfind_procs(draft->finder), files, cnt, ret_cnt, &pid,
		err);
}

int draft_pids(const struct draft *draft, pid_t **ret_pids, size_t *ret_cnt, struct err *err)
{
	size_t cnt = 0;
	_cleanup_free_ struct mappers_file *files = draft_files(draft, &cnt);

	return mappers_list(
		libfind_procs(draft->finder), files, cnt, ret_pids, ret_cnt, err);
}

int draft_is_mapped(const struct draft *draft, pid_t pid)
{
	size_t cnt = 0;
	_cleanup_free_ struct mappers_file *files = draft_files(draft, &cnt);

	/* Targets outside files apply to every process. */
	return cnt < draft->objects.cnt ||
		mappers_has(libfind_procs(draft->finder), pid, files, cnt);
}
